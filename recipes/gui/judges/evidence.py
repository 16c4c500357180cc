"""What a judge may look at: the task, what the agent did and saw, what it answered. Never what it thought."""

from collections.abc import Mapping, Sequence

import msgspec

from orchard_cli.harness import literals
from orchard_cli.harness.formats import FormatError
from orchard_cli.trajectory import Message, Step


class Shot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One look at the page: a picture (sha256 hex in the run's blob store), or where there is none its text."""

    image: str = ""
    text: str = ""


class Evidence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """JSON through `msgspec.json`, so that it can be the artifact of an attempt.

    requirements: for DeepShop, `attribute`, `filter` and `sort` in words; missing or `None`: no such requirement.
    """

    task: str
    answer: str = ""
    actions: tuple[str, ...] = ()
    shots: tuple[Shot, ...] = ()
    url: str = ""  # where the task began
    requirements: Mapping[str, str] = {}


def evidence(
    task: str,
    messages: Sequence[Message],
    steps: Sequence[Step],
    *,
    url: str = "",
    requirements: Mapping[str, str] | None = None,
) -> Evidence:
    """From the record of an attempt. The answer is the `response` of its last `done` call, as executed.

    Screenshots are those of messages that are not the agent's own, in order; a message without one counts as text.
    """
    shots: list[Shot] = []
    for message in messages[1:] if messages and messages[0].role == "system" else messages:
        if message.role == "assistant":
            continue
        shots += [Shot(image=sha) for sha in message.images] or [Shot(text=message.content)]
    if any(shot.image for shot in shots):
        shots = [shot for shot in shots if shot.image]
    actions = tuple(line for step in steps for line in step.action.splitlines() if line.strip())
    return Evidence(task, answer_of(steps), actions, tuple(shots), url, dict(requirements or {}))


def answer_of(steps: Sequence[Step]) -> str:
    """What the agent said when it ended the attempt; empty if it never did."""
    last = steps[-1].action.splitlines()[-1:] if steps else []
    if not last or not last[0].startswith("done("):
        return ""
    try:
        said = literals.read(last[0], "call_0").arguments.get("response")
    except FormatError:
        return ""
    return str(said or "").strip()
