"""Scripted teachers: each reads the goal and the page's text, as any policy does, and answers with calls.

A teacher is a small function of one moment. It never sees the page's code, the seed or the reward.
"""

import random
from collections.abc import Sequence

from orchard_cli.harness.calls import CallFormat
from orchard_cli.harness.formats import FormatError
from orchard_cli.policy.scripted import ScriptedPolicy
from orchard_cli.task import Task
from orchard_cli.trajectory import Message, ToolCall

from ...screen import goal, screens
from . import clicks, forms, walks
from .moment import Lost, Moment, Teacher, call, done
from .slips import slip

TEACHERS: dict[str, Teacher] = {**clicks.TEACHERS, **forms.TEACHERS, **walks.TEACHERS}


def script(task: Task, *, seed: int, error_rate: float, format: CallFormat) -> ScriptedPolicy:
    """Solves the page; in a share `error_rate` of the seeds one of its calls goes wrong. Unknown pages are given up."""
    teacher = TEACHERS.get(task.family)
    rng = random.Random(f"{task.id}/{seed}")
    wrong = rng.choice((0, 0, 0, 1)) if rng.random() < error_rate else -1  # the turn that goes wrong, if one does
    mark = rng.random()

    def respond(messages: Sequence[Message]) -> Message:
        said = _said(messages, format)
        at = Moment(goal(messages), screens(messages)[-1], sum(m.role == "assistant" for m in messages), tuple(said))
        try:
            calls = list(teacher(at)) if teacher else [done()]
        except (Lost, IndexError, ValueError, StopIteration):
            calls = [done()]
        if at.turn == wrong and calls:
            calls = slip(calls, at.screen, random.Random(f"{mark}/{at.turn}"))
        return format.encode([ToolCall(f"call_{i}", c.name, c.arguments) for i, c in enumerate(calls)])

    return ScriptedPolicy("script", respond)


def _said(messages: Sequence[Message], format: CallFormat) -> list[ToolCall]:
    calls: list[ToolCall] = []
    for message in messages:
        if message.role == "assistant":
            try:
                calls += format.parse(message)
            except FormatError:
                continue
    return calls


def noop(format: CallFormat) -> ScriptedPolicy:
    """Says at once that it is done."""
    return ScriptedPolicy.replies("noop", [format.encode([call("done")])])
