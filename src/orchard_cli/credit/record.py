"""What the credit stage leaves for one attempt, one JSON line each."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from ..errors import DataError
from ..trajectory.types import Record, Usage
from .rise import rising
from .value import Curve


class Finding(Record, frozen=True):
    """What an estimator returns: a curve, or None and the problems why not. `problems` counts by name."""

    curve: Curve | None
    usage: Usage = Usage()
    problems: dict[str, int] = {}
    note: str = ""  # the last problem in words


class Credit(Record, frozen=True):
    """Credit of one unresolved attempt. `rising` are half-open step ranges; empty if there is no curve."""

    trajectory: str
    task: str
    method: str
    epsilon: float
    rule: str
    curve: Curve | None = None
    values: tuple[float, ...] = ()
    rising: tuple[tuple[int, int], ...] = ()
    usage: Usage = Usage()
    problems: dict[str, int] = {}
    note: str = ""


def credit(trajectory: str, task: str, found: Finding, *, method: str, epsilon: float, rule: str) -> Credit:
    """The record of a finding: interpolated values and rising steps by the given rule."""
    base = Credit(trajectory, task, method, epsilon, rule, usage=found.usage, problems=found.problems, note=found.note)
    if found.curve is None:
        return base
    return msgspec.structs.replace(
        base,
        curve=found.curve,
        values=found.curve.values(),
        rising=rising(found.curve, epsilon=epsilon, rule=rule),
    )


def dump(records: Iterable[Credit], path: Path) -> None:
    """Write all records as JSON lines, replacing the file in one move."""
    part = path.with_suffix(path.suffix + ".part")
    with part.open("wb") as file:
        for record in records:
            file.write(msgspec.json.encode(record) + b"\n")
    part.replace(path)


def load(path: Path) -> Iterator[Credit]:
    """Read them back. Raises `DataError` with file and line."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                yield msgspec.json.decode(line, type=Credit)
            except msgspec.DecodeError as error:
                raise DataError(f"{path}:{number}: {error}", hint="run the credit stage again") from error
