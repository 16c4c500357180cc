"""Reading trajectories: all of them, one by name, or only which attempts there are."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from ..errors import DataError
from ..outcome import Outcome
from ..task import Split
from .scan import Line, Problem, Record, decode, lines, scan
from .types import SCHEMA, Trajectory

_SHOWN = 5  # ids that an error names


class Key(NamedTuple):
    """Which attempt a record is. Nothing may be recorded twice under one key with an outcome that counts."""

    task_id: str
    attempt: int
    split: Split = "train"
    stage: str = ""
    policy: str = ""
    seed: int = 0

    @classmethod
    def of(cls, trajectory: Trajectory) -> "Key":
        t = trajectory
        return cls(t.task_id, t.attempt, t.split, t.stage, t.policy, t.seed)


class _Slot(msgspec.Struct):
    """The few fields that a key needs; the rest of a line is skipped, which is several times faster."""

    task_id: str
    policy: str
    outcome: Outcome
    attempt: int = 0
    split: Split = "train"
    stage: str = ""
    seed: int = 0
    schema: int = 0


def read(path: str | os.PathLike[str], *, torn: Callable[[Problem], None] | None = None) -> Iterator[Trajectory]:
    """Every trajectory in order, with constant memory, also while another process appends.

    A torn tail ends the reading and is told to `torn`. Raises `DataError` with file, line and field for
    anything else that cannot be read, and for a file that is not there, is empty, or holds no whole record.
    """
    count = 0
    for found in scan(path):
        if isinstance(found, Record):
            count += 1
            yield found.trajectory
        elif found.code != "torn_tail":
            raise unreadable(found)
        elif torn:
            torn(found)
    if not count:
        raise DataError(f"{path} holds no whole trajectory", hint="run the stage that writes it again")


def find(path: str | os.PathLike[str], name: str) -> Trajectory:
    """The one trajectory whose id is, or else alone begins with, `name`; `#3` is the third of the file.

    Raises `DataError` if there is none or there are several. Lines that cannot be read are passed over.
    """
    begins: list[Trajectory] = []
    for found in scan(path):
        if not isinstance(found, Record):
            continue
        if name in (found.trajectory.id, f"#{found.line.number}"):
            return found.trajectory
        if found.trajectory.id.startswith(name) and len(begins) < _SHOWN:
            begins.append(found.trajectory)
    if len(begins) == 1:
        return begins[0]
    if begins:
        some = ", ".join(t.id for t in begins)
        raise DataError(f"{name!r} begins more than one id in {path}: {some} …", hint="give more of the id")
    raise DataError(f"{path} holds no trajectory {name!r}", hint=f"`orchard traj ls {path}` lists the ids")


def keys(path: str | os.PathLike[str]) -> dict[Key, Outcome]:
    """The attempts that are recorded, each with its outcome; empty if the file is not there or is empty.

    An outcome that counts is never replaced by one that does not. Checks far less than `read`.
    """
    path = Path(path)
    recorded: dict[Key, Outcome] = {}
    if not path.exists() or not path.stat().st_size:
        return recorded
    decoder = msgspec.json.Decoder(_Slot)
    for found in lines(path):
        if isinstance(found, Line):
            key, outcome = _entry(decoder, path, found)
            if outcome.counts or key not in recorded:
                recorded[key] = outcome
        elif found.code != "torn_tail":
            raise unreadable(found)
    return recorded


def _entry(decoder: "msgspec.json.Decoder[_Slot]", path: Path, line: Line) -> tuple[Key, Outcome]:
    try:
        slot = decoder.decode(line.data)
        if slot.schema == SCHEMA:
            key = Key(slot.task_id, slot.attempt, slot.split, slot.stage, slot.policy, slot.seed)
            return key, slot.outcome
    except (msgspec.DecodeError, RecursionError):
        pass  # the full decoder says what is wrong
    fault = decode(line.data)
    if isinstance(fault, Trajectory):
        return Key.of(fault), fault.outcome
    raise unreadable(Problem(str(path), line.number, line.offset, *fault))


def unreadable(problem: Problem) -> DataError:
    """The error that ends a reading at `problem`."""
    if problem.code == "newer_schema":
        return DataError(str(problem), hint="upgrade: pip install -U orchard-cli")
    return DataError(str(problem), hint=f"`orchard traj verify {problem.file}` lists every fault of the file")
