"""Reading a file of trajectories line by line: each line becomes a trajectory, or a problem with a place.

Two containers: `.jsonl.zst` as `Store` writes it (one line, one frame), also as other tools write it (many
lines in a frame), and plain `.jsonl`. Memory stays that of one frame.
"""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from ..errors import DataError
from .frames import LARGEST, MAGIC, Damage, frames
from .types import SCHEMA, Trajectory

_DECODER = msgspec.json.Decoder(Trajectory)
_AT = re.compile(r"^(?P<what>.*) - at `(?P<key>key in )?\$(?P<path>[^`]*)`$", re.DOTALL)
_NAMED = re.compile(r"^Object (contains unknown|missing required) field `(?P<name>.*)`$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Problem:
    """A fault of a file, with its place. line: from 1, after unpacking. frame_offset: byte in the file as it is
    on disk (in a plain file, of the line). code: one word for programs. Empty where it does not apply.
    """

    file: str
    line: int
    frame_offset: int
    trajectory_id: str
    field: str
    code: str
    message: str

    def __str__(self) -> str:
        who = f" trajectory {self.trajectory_id!r}:" if self.trajectory_id else ""
        field = f" {self.field}:" if self.field else ""
        return f"{self.file}:{self.line} (byte {self.frame_offset}):{who}{field} {self.message} [{self.code}]"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of JSON, without its line end. offset: byte of its frame in the file."""

    number: int
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Record:
    """A trajectory that could be read, the line it came from, and where."""

    line: Line
    trajectory: Trajectory


class Head(msgspec.Struct):
    """What can be said of a line that is no trajectory of ours."""

    id: Any = ""
    schema: Any = None


def scan(path: str | os.PathLike[str]) -> Iterator[Record | Problem]:
    """Everything in the file, good and bad, in order. Never raises for what a line holds.

    Raises `DataError` if the file is not there, cannot be read, is empty, or is no file of trajectories.
    """
    path = Path(path)
    for found in lines(path):
        if isinstance(found, Problem):
            yield found
            continue
        fault = decode(found.data)
        if isinstance(fault, Trajectory):
            yield Record(found, fault)
        else:
            yield Problem(str(path), found.number, found.offset, *fault)


def lines(path: Path) -> Iterator[Line | Problem]:
    """Every line of the file as bytes. Raises as `scan` does."""
    with opened(path) as file:
        head = os.pread(file, len(MAGIC), 0)
        if not head:
            raise DataError(f"{path} is empty", hint="the stage that writes it has not finished one attempt")
        if MAGIC.startswith(head):
            yield from _frame_lines(path, file)
        elif path.suffix in (".zst", ".zstd"):
            raise not_zstd(path)
        else:
            yield from _plain_lines(path, file)


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """A file descriptor for reading; whatever prevents it is a `DataError`."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise DataError(f"{path} is not there", hint="check the path; `orchard runs ls` lists the runs") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}", hint="check its owner and mode") from error
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise DataError(f"{path} is not a file", hint="give a .jsonl.zst or .jsonl file of trajectories")
        yield file
    finally:
        os.close(file)


def not_zstd(path: Path) -> DataError:
    return DataError(
        f"{path} does not begin with a zstd frame",
        hint="records are written to .jsonl.zst; plain JSON Lines are read too, if the name ends in .jsonl",
    )


def _frame_lines(path: Path, file: int) -> Iterator[Line | Problem]:
    number = 0
    for found in frames(file):
        if isinstance(found, Damage):
            # A frame is one line; bytes between frames are none, so they bear the number of the next line.
            yield Problem(str(path), number + 1, found.offset, "", "", found.code, found.message)
            number += found.code != "garbage"
            continue
        for data in found.data.removesuffix(b"\n").split(b"\n"):
            number += 1
            if data.strip():
                yield Line(number, found.offset, data)
            else:
                yield Problem(str(path), number, found.offset, "", "", "blank_line", "the line is blank")


def _plain_lines(path: Path, file: int) -> Iterator[Line | Problem]:
    offset = 0
    with os.fdopen(os.dup(file), "rb") as stream:
        stream.seek(0)
        for number, data in enumerate(iter(lambda: stream.readline(LARGEST + 1), b""), 1):
            if len(data) > LARGEST:
                message = f"the line is longer than {LARGEST} bytes"
                yield Problem(str(path), number, offset, "", "", "frame_too_large", message)
                return
            if not data.endswith(b"\n") and not isinstance(decode(data), Trajectory):
                yield Problem(str(path), number, offset, "", "", "torn_tail", "the last line is cut short")
            elif data.strip():
                yield Line(number, offset, data.rstrip(b"\r\n"))
            offset += len(data)


def decode(data: bytes) -> Trajectory | tuple[str, str, str, str]:
    """The trajectory in one line of JSON, or (its id, field, code, message) if it is none."""
    try:
        trajectory = _DECODER.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        return _fault(data, error)
    if trajectory.schema == SCHEMA:
        return trajectory
    return trajectory.id, *_wrong_schema(trajectory.schema)


def _fault(data: bytes, error: Exception) -> tuple[str, str, str, str]:
    head = _head(data)
    who = head.id if isinstance(head.id, str) else ""
    if isinstance(head.schema, int) and head.schema != SCHEMA:
        return who, *_wrong_schema(head.schema)
    text = str(error)
    if not isinstance(error, msgspec.ValidationError):
        code = "invalid_utf8" if "UTF-8" in text else "invalid_json"
        return who, "", code, text
    place = _AT.match(text)
    what = place["what"] if place else text
    field = place["path"].lstrip(".") if place else ""
    named = _NAMED.match(what)
    if named:
        code = "unknown_field" if "unknown" in what[:24] else "missing_field"
        return who, ".".join(filter(None, (field, named["name"]))), code, what
    return who, field, "invalid_value" if what.startswith("Invalid") else "wrong_type", what


def _head(data: bytes) -> Head:
    try:
        return msgspec.json.decode(data, type=Head)
    except (msgspec.DecodeError, RecursionError):
        return Head()


def _wrong_schema(schema: int) -> tuple[str, str, str]:
    if schema > SCHEMA:
        message = f"written by a newer orchard: record schema {schema}, this one reads {SCHEMA}"
        return "schema", "newer_schema", message
    return "schema", "unknown_schema", f"record schema {schema} does not exist"
