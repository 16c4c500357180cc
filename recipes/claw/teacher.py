"""The scripted teacher: a family's plan, played through the harness; or one of its wrong ways, by the seed.

What comes next follows from the conversation alone: which steps of the plan were made and what came of them. So it
tries again after a fault, and it can go on from any point of an attempt that another seed made.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from orchard_cli.policy.scripted import ScriptedPolicy
from orchard_cli.task import Task
from orchard_cli.trajectory import Message, ToolCall

from .speech import Speech, Turn
from .world.service.operations import OPERATIONS

DETOUR = 0.15  # share of the errors that look at something needless first and then do it right
PATIENCE = 6  # tries of one step before it is left
_PASSING = re.compile(r"^\W*(rate_limited|unavailable|timeout)\b", re.IGNORECASE)
_UNSURE = re.compile(r"^\W*timeout\b", re.IGNORECASE)

Plan = tuple[ToolCall, ...]


@dataclass(frozen=True)
class Way:
    """What one seed makes of the teacher: a name (empty if it does not err) and what it does."""

    slip: str
    plan: Plan


def plan(calls: Sequence[dict[str, dict[str, Any]]]) -> Plan:
    return tuple(
        ToolCall(f"call_{i}", name, dict(arguments)) for i, call in enumerate(calls) for name, arguments in call.items()
    )


def way(task: Task, seed: int, error_rate: float) -> Way:
    rng = random.Random(f"{task.id}/{seed}")
    right, wrong = task.hidden["plan"], task.hidden.get("wrong", {})
    if rng.random() >= error_rate:
        return Way("", plan(right))
    if rng.random() < DETOUR or not wrong:
        return Way("detour", plan([{"clock_now": {}}, *right]))
    name = rng.choice(sorted(wrong))
    return Way(name, plan(wrong[name]))


def script(task: Task, *, seed: int, error_rate: float, speech: Speech) -> ScriptedPolicy:
    """The teacher for one attempt at `task`; in a share `error_rate` of the seeds it goes wrong."""
    return _playing("script", way(task, seed, error_rate).plan, speech)


def wrong(task: Task, speech: Speech) -> list[ScriptedPolicy]:
    """Every wrong way of the task, each under its name."""
    return [_playing(name, plan(calls), speech) for name, calls in task.hidden.get("wrong", {}).items()]


def noop(speech: Speech) -> ScriptedPolicy:
    """Says that it is done, at once."""
    return _playing("noop", plan([{"done": {"answer": "done"}}]), speech)


def _playing(name: str, steps: Plan, speech: Speech) -> ScriptedPolicy:
    def respond(messages: Sequence[Message]) -> Message:
        return speech.say(next_call(steps, speech.turns(messages)))

    return ScriptedPolicy(name, respond)


def next_call(steps: Plan, turns: Sequence[Turn]) -> ToolCall:
    """The first step that was not made yet. A passing fault is tried again, at most `PATIENCE` times."""
    at, tries = 0, 0
    for turn in turns:
        if at == len(steps) or not _same(turn.call, steps[at]):
            continue
        tries += 1
        if not _PASSING.search(turn.result) or tries >= PATIENCE or _looks_next(steps, at, turn):
            at, tries = at + 1, 0
    return steps[min(at, len(steps) - 1)]


def _looks_next(steps: Plan, at: int, turn: Turn) -> bool:
    """After an effect that may have happened, a plan that looks next is followed instead of repeating."""
    if at + 1 >= len(steps) or not _UNSURE.search(turn.result) or not OPERATIONS[steps[at].name].writes:
        return False
    return steps[at + 1].name != "done"


def _same(made: ToolCall, step: ToolCall) -> bool:
    return made.name == step.name and made.arguments == step.arguments
