"""A family proved without a sandbox: its plan, its wrong ways and doing nothing, played against a world in memory.

`orchard claw check` proves the same through the real harness and sandbox; this is for the moment in which a family
is written, read from a file, or made by `synth`: milliseconds a task.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from orchard_cli.domain import Grade
from orchard_cli.task import Task
from orchard_cli.trajectory import ToolCall

from ..evidence import evidence
from ..grade_score import PASS, judge
from ..speech import Turn
from ..teacher import next_call, plan
from ..world import spec
from ..world.service.world import World

MOST_TURNS = 30


@dataclass(frozen=True)
class Played:
    """One way through a task, and what it is worth."""

    grade: Grade
    turns: tuple[Turn, ...]


def play(task: Task, calls: Sequence[dict[str, Any]]) -> Played:
    """Make `calls` as the teacher would, until the task is over."""
    world, steps = World(spec.checked(task.data["world"], where=task.id)), plan(calls)
    turns: list[Turn] = []
    while len(turns) < MOST_TURNS and not world.scene.done:
        call = next_call(steps, turns)
        turns.append(Turn(call, world.call(call.name, call.arguments).text))
    return Played(judge(task.hidden, evidence(world.export())), tuple(turns))


def faults(task: Task) -> list[str]:
    """What is wrong with a task: empty if the plan scores 1, nothing scores 0 and each wrong way fails."""
    found = []
    right = play(task, task.hidden["plan"])
    if right.grade.reward != 1.0:
        said = "; ".join(t.result.split("\n")[0] for t in right.turns)
        found.append(f"plan: scores {right.grade.reward} ({dict(right.grade.details)}; {said})"[:600])
    found += [f"plan: {call.name}: `{value}` was never shown" for call, value in unseen(task.prompt, right.turns)]
    nothing = play(task, [{"done": {"answer": "done"}}])
    if nothing.grade.reward != 0.0:
        found.append(f"want: doing nothing scores {nothing.grade.reward}")
    if len(task.hidden["wrong"]) < 2:
        found.append("wrong: two wrong ways are needed")
    for name, calls in task.hidden["wrong"].items():
        reward = play(task, calls).grade.reward
        if reward >= PASS:
            found.append(f"wrong.{name}: scores {reward}, a pass")
    return found


def unseen(prompt: str, turns: Sequence[Turn]) -> list[tuple[ToolCall, str]]:
    """Ids, addresses and paths that the plan uses before the conversation has shown them."""
    known, found = prompt, []
    for turn in turns:
        for name, value in turn.call.arguments.items():
            if name in ("id", "to", "person", "path", "product", "url", "attendees", "payee", "account", "phone"):
                parts = [p.strip().lstrip("/") for p in str(value).split(",") if p.strip()]
                found += [(turn.call, p) for p in parts if p.casefold() not in known.casefold()]
        known += "\n" + turn.result
    return found
