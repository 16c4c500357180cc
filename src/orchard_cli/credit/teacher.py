"""Judged credit: a model reads the whole attempt and its outcome, and gives V at the steps it finds important."""

import json
import re
from collections import Counter
from importlib.resources import files
from typing import Any

import jinja2

from ..errors import DataError, PolicyError
from ..outcome import Outcome
from ..policy.policy import Policy, Sampling
from ..task import Task
from ..trajectory import Message, Trajectory, Usage
from .record import Finding
from .value import Anchor, Curve, curve

TRIES = 2
LIST = re.compile(r"\[\s*\{")
CANDIDATES = 100  # a hostile answer must not make the search quadratic
AGAIN = "That answer cannot be used: {problem}. Answer again, with the JSON list only."


def judge(
    trajectory: Trajectory, task: Task, policy: Policy, sampling: Sampling, *, observation_chars: int = 2000
) -> Finding:
    """Ask once, and once more if the answer is bad; then the attempt is left out, with its problems counted."""
    problems: Counter[str] = Counter()
    usage, note = Usage(), ""
    messages = [Message("user", prompt(trajectory, task, observation_chars=observation_chars))]
    for _ in range(TRIES):
        try:
            reply = policy.reply(messages, sampling=sampling)
        except PolicyError as error:
            problems[error.fault.code] += 1
            return Finding(None, usage, dict(problems), str(error))
        usage += reply.usage
        try:
            found = parse(reply.message.content, len(trajectory.steps), resolved=_resolved(trajectory))
            return Finding(found, usage, dict(problems), note)
        except DataError as error:
            problems["bad_answer"] += 1
            note = str(error)
            messages += [reply.message, Message("user", AGAIN.format(problem=note))]
    return Finding(None, usage, dict(problems), note)


def prompt(trajectory: Trajectory, task: Task, *, observation_chars: int = 2000) -> str:
    """The whole attempt as text; observations are cut to their first and last halves."""
    source = files(__package__).joinpath("prompts/value.md").read_text("utf-8")
    # Not HTML, and the attempt's text is inserted as data: nothing in it is ever evaluated as a template.
    template = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False, trim_blocks=True)
    steps = []
    for step in trajectory.steps:
        shown = trajectory.messages[step.reply + 1 : step.observation + 1]  # a turn may have several
        seen = "\n".join(message.content for message in shown)
        steps.append(
            {
                "thought": _thought(trajectory.messages[step.reply], step.action),
                "action": step.action,
                "observation": _clip(seen, observation_chars),
                "exit_code": step.executed.exit_code if step.executed else None,
            }
        )
    return template.from_string(source).render(
        prompt=task.prompt,
        steps=steps,
        outcome=trajectory.outcome.value,
        stop=trajectory.stop,
        end=int(_resolved(trajectory)),
    )


def parse(text: str, steps: int, *, resolved: bool) -> Curve:
    """The last JSON list of anchors in `text`. Found tolerantly, checked strictly; raises `DataError`."""
    found = _lists(text)
    if not found:
        raise DataError('no JSON list of {"step", "p"} objects was found')
    return curve(steps, tuple(_anchor(item) for item in found[-1]), resolved=resolved)


def _lists(text: str) -> list[list[dict[str, Any]]]:
    """Every JSON list of objects in the text, whatever stands around it."""
    decoder, found, end = json.JSONDecoder(), [], 0
    for start in [m.start() for m in LIST.finditer(text)][-CANDIDATES:]:
        if start < end:
            continue  # inside the list before it
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        if all(isinstance(item, dict) for item in value):
            found.append(value)
    return found


def _anchor(item: dict[str, Any]) -> Anchor:
    step, p = item.get("step"), item.get("p")
    if isinstance(step, bool) or isinstance(p, bool) or not isinstance(step, int) or not isinstance(p, int | float):
        raise DataError(f'an anchor is {{"step": whole number, "p": number}}, not {str(item)[:80]}')
    if not 0 <= p <= 1:  # before float(): a whole number may be too large for one; NaN fails too
        raise DataError(f"anchor at step {step}: p is outside [0, 1]")
    return Anchor(step, float(p))


def _thought(message: Message, action: str) -> str:
    said = message.content if not action else message.content.partition("```")[0]
    return "\n".join(part for part in (message.reasoning.strip(), said.strip()) if part)


def _clip(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"


def _resolved(trajectory: Trajectory) -> bool:
    return trajectory.outcome is Outcome.SOLVED
