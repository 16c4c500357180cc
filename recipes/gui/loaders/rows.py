"""Rows of a benchmark's file, one at a time: JSONL, or JSON with a list. A bad row is a `Problem`; reading goes on."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from orchard_cli.errors import DataError

MAX_LINE = 2**20  # bytes; a longer line is no task
MAX_FILE = 2**30
T = TypeVar("T")


@dataclass(frozen=True)
class Problem:
    """What is wrong with one row. `line` counts from 1: lines of JSONL, rows of JSON."""

    file: str
    line: int
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {f'`{self.field}`: ' if self.field else ''}{self.message}"


@dataclass(frozen=True)
class _Bad:
    why: str


def rows(path: Path) -> Iterator[tuple[int, Any]]:
    """(number, row) for every row; one that is no object is a `Problem`. Raises `DataError` for an unreadable file."""
    if path.suffix.lower() not in (".jsonl", ".ndjson", ".json"):
        raise DataError(f"{path}: cannot tell what this file is", hint="task files are JSONL (.jsonl) and JSON (.json)")
    try:
        if path.stat().st_size > MAX_FILE:
            raise DataError(f"{path}: larger than {MAX_FILE >> 20} MiB")
        whole = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
    except OSError as error:
        raise DataError(
            f"{path}: {error.strerror or error}", hint="tasks.path names one file, relative to the current folder"
        ) from error
    found = _list(path, whole) if path.suffix.lower() == ".json" else _lines(whole)
    for number, row in found:
        if isinstance(row, _Bad):
            yield number, Problem(str(path), number, "", row.why)
        elif isinstance(row, dict):
            yield number, row
        else:
            yield number, Problem(str(path), number, "", f"a task is an object, not {type(row).__name__}")


def typed(path: Path, number: int, row: Any, kind: type[T]) -> T | Problem:
    """The row as a record of that kind, or what is wrong with it. Fields that nobody asked for are let be."""
    if isinstance(row, Problem):
        return row
    try:
        return msgspec.convert(row, kind, strict=True)
    except msgspec.ValidationError as error:
        text = str(error)
        at = re.search(r"`\$\.?([^`]*)`$", text)
        missing = re.search(r"missing required field `([^`]+)`", text)
        field = missing[1] if missing else at[1] if at else ""
        return Problem(str(path), number, field, "missing" if missing else text.split(" - at ")[0])


def _lines(whole: bytes) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(whole.split(b"\n"), 1):
        if len(line) > MAX_LINE:
            yield number, _Bad(f"longer than {MAX_LINE >> 20} MiB")
        elif line.strip():
            yield number, _decoded(line)


def _list(path: Path, whole: bytes) -> Iterator[tuple[int, Any]]:
    found = _decoded(whole)
    if not isinstance(found, list):
        why = found.why if isinstance(found, _Bad) else f"it holds a {type(found).__name__}"
        raise DataError(f"{path}: {why}", hint="a .json file holds a list of tasks")
    yield from enumerate(found, 1)


def _decoded(text: bytes) -> Any:
    """The JSON value, or why it is none."""
    try:
        return json.loads(text.decode("utf-8"))
    except UnicodeDecodeError as error:
        return _Bad(f"not UTF-8 at byte {error.start}")
    except ValueError as error:
        return _Bad(f"not JSON: {error}")
    except RecursionError:
        return _Bad("nested too deeply")
