"""Is a file of trajectories sound? Every fault is named with file, line, field and a code."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from .blobs import Blobs
from .checks import Decode, Flaw, check
from .reading import Key
from .scan import Problem, Record, scan
from .types import Trajectory


@dataclass(frozen=True)
class Report:
    """good: records without a fault. records: all that could be read. problems: in the order of the file."""

    file: str
    bytes: int
    records: int
    good: int
    problems: tuple[Problem, ...] = ()
    more: int = 0  # problems beyond the limit, counted only

    @property
    def ok(self) -> bool:
        return not self.problems


@dataclass
class _Seen:
    """Where each id and each attempt was first: line numbers. What is wrong with each blob, if anything is."""

    blobs: Blobs
    ids: dict[str, int] = field(default_factory=dict)
    keys: dict[Key, int] = field(default_factory=dict)
    flaws: dict[str, tuple[str, str] | None] = field(default_factory=dict)


class _Version(msgspec.Struct):
    schema: Any = None


def verify(path: str | os.PathLike[str], *, decode: Decode | None = None, limit: int = 10_000) -> Report:
    """Read the whole file and check every record, with memory for its ids only, and every blob that it refers to.

    decode: token ids to text without special tokens; then tokens and messages must agree. limit: problems that
    are kept. Raises `DataError` only if the file is not there, cannot be read, is empty or no such file.
    """
    problems: list[Problem] = []
    seen, records, good, count = _Seen(Blobs.beside(Path(path))), 0, 0, 0
    for found in scan(path):
        if isinstance(found, Record):
            records += 1
            faults = _problems(str(path), found, seen, decode)
            good += not faults
        else:
            faults = [found]
        count += len(faults)
        problems += faults[: limit - len(problems)]
    size = Path(path).stat().st_size
    return Report(str(path), size, records, good, tuple(problems), count - len(problems))


def _problems(file: str, record: Record, seen: _Seen, decode: Decode | None) -> list[Problem]:
    t, line = record.trajectory, record.line
    flaws = [tuple(flaw) for flaw in check(t, decode)]
    if msgspec.json.decode(line.data, type=_Version).schema is None:
        flaws.append(("schema", "missing_field", "the record does not say which schema it follows"))
    first = seen.ids.setdefault(t.id, line.number)
    if first != line.number:
        flaws.append(("id", "duplicate_id", f"line {first} has the same id"))
    if t.outcome.counts:
        key = Key.of(t)
        first = seen.keys.setdefault(key, line.number)
        if first != line.number:
            where = f"attempt {t.attempt} at {t.task_id!r} ({t.stage} {t.split}) is on line {first} already"
            flaws.append(("attempt", "duplicate_attempt", where))
    flaws += [tuple(flaw) for flaw in _images(t, seen)]
    return [Problem(file, line.number, line.offset, t.id, *flaw) for flaw in flaws]


def _images(trajectory: Trajectory, seen: _Seen) -> Iterator[Flaw]:
    """One flaw for each image that is not in the run's store, or not what it was."""
    for at, message in enumerate(trajectory.messages):
        for number, sha in enumerate(message.images):
            if sha not in seen.flaws:
                seen.flaws[sha] = seen.blobs.flaw(sha)
            if flaw := seen.flaws[sha]:
                yield Flaw(f"messages[{at}].images[{number}]", *flaw)
