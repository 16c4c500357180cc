"""The scripted shopper: follows a plan from screen to screen; in a share of the seeds the plan holds a mistake.

Each reply follows from the conversation alone, so the script can also finish an attempt that somebody else began.
"""

import random
from collections.abc import Callable, Sequence

from orchard_cli.policy.scripted import ScriptedPolicy
from orchard_cli.task import Task
from orchard_cli.trajectory import Message, ToolCall

from .screen import screens
from .slips import Plan, slipped
from .steps import Turn, behind, call, home_of, step

Say = Callable[[Sequence[ToolCall], str], Message]  # calls, thought


def native(calls: Sequence[ToolCall], thought: str) -> Message:
    return Message("assistant", thought, tool_calls=tuple(calls))


def script(task: Task, *, seed: int, error_rate: float, say: Say = native) -> ScriptedPolicy:
    """Does the task; in a share `error_rate` of the seeds it makes one of the mistakes in `slips.py`."""
    rng = random.Random(f"{seed}/{task.id}")
    wrong = rng.random() < error_rate
    return _policy("script", slipped(task, rng)[1] if wrong else task.hidden["plan"], say)


def noop(task: Task, say: Say = native) -> ScriptedPolicy:
    """Says at once that it is done."""
    return _policy("noop", [], say)


def wrong(task: Task, say: Say = native) -> tuple[ScriptedPolicy, ...]:
    """Two ways that look right and are not: a thing too many, and a way that misses what was asked by little."""
    rng = random.Random(task.id)
    kinds = ("wrong_answer", "misspelt", "wrong_number", "other_product", "forgets")
    near = next(kind for kind in kinds if _possible(task, kind))
    return tuple(_policy(kind, slipped(task, rng, kind)[1], say) for kind in ("extra", near))


def next_turn(plan: Sequence[dict[str, object]], messages: Sequence[Message]) -> Turn:
    """(thought, calls): what a shopper with this plan does next in this conversation."""
    seen = screens(messages)
    home, left = home_of(seen), seen
    for milestone in plan:
        reached = behind(milestone, left)
        if reached < 0:
            thought, calls = step(milestone, seen[-1], home)
            return thought, tuple(_numbered(calls))
        left = left[reached:]
    return "All is done.", (call("done", response="Done."),)


def _numbered(calls: Sequence[ToolCall]) -> list[ToolCall]:
    return [ToolCall(f"call_{at}", c.name, c.arguments) for at, c in enumerate(calls)]


def _policy(name: str, plan: Plan, say: Say) -> ScriptedPolicy:
    def respond(messages: Sequence[Message]) -> Message:
        thought, calls = next_turn(plan, messages)
        return say(calls, thought)

    return ScriptedPolicy(name, respond)


def _possible(task: Task, kind: str) -> bool:
    try:
        slipped(task, random.Random(0), kind)
    except ValueError:
        return False
    return True
