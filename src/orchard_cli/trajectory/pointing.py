"""Where on a screenshot an action points: clicks of the record, drawn on the picture that they followed."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .types import Message, Step

_QUOTED = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'""")
_POINT = re.compile(r"(\w*point\w*)\s*=\s*[\[(]\s*(\d{1,4}(?:\.\d{1,9})?)\s*,\s*(\d{1,4}(?:\.\d{1,9})?)\s*[\])]")
_NAME = re.compile(r"\s*([A-Za-z_]\w{0,40})\(")


@dataclass(frozen=True)
class Mark:
    """A place in percent of the picture. `to`: where a drag ends."""

    step: int  # counts from 1
    action: str
    x: float
    y: float
    to: tuple[float, float] | None = None


def marks(messages: Sequence[Message], steps: Sequence[Step]) -> dict[int, list[Mark]]:
    """Message with pictures → what was pointed at on the last of them. Points are thousandths, as `point_2d=[x, y]`."""
    found: dict[int, list[Mark]] = {}
    for number, step in enumerate(steps, 1):
        shown = next((at for at in range(step.reply - 1, -1, -1) if messages[at].images), -1)
        if shown >= 0:
            found.setdefault(shown, []).extend(_of(number, step.action))
    return {at: drawn for at, drawn in found.items() if drawn}


def _of(number: int, action: str) -> Iterator[Mark]:
    for line in action.splitlines():
        name = _NAME.match(line)
        points = {key: (_share(x), _share(y)) for key, x, y in _POINT.findall(_QUOTED.sub('""', line))}
        ends = next((at for key, at in points.items() if key.startswith("end")), None)
        for key, (x, y) in points.items():
            if not key.startswith("end"):
                yield Mark(number, name[1] if name else "", x, y, ends)


def _share(thousandths: str) -> float:
    return min(float(thousandths), 1000.0) / 10
