"""Rows of a task file, one at a time: JSONL, JSON (a list, or an object keyed by id) or Parquet.

A bad row is a `Problem` that names file, line and field; reading goes on. Only a file that cannot be read at all
is a `DataError`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from orchard_cli.errors import DataError

MAX_LINE = 32 * 2**20  # bytes; a longer line is no task
MAX_JSON = 2**30  # bytes; such a file is read whole
KINDS = "JSONL (.jsonl, .ndjson), JSON (.json) and Parquet (.parquet)"

Row = dict[str, Any]


@dataclass(frozen=True)
class Problem:
    """What is wrong with one row. `line` counts from 1: lines of JSONL, rows of JSON and Parquet."""

    file: str
    line: int
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {f'`{self.field}`: ' if self.field else ''}{self.message}"


def rows(path: Path) -> Iterator[tuple[int, Row | Problem]]:
    """(number, row or what is wrong with it) for every row. Raises `DataError` if the file cannot be read."""
    readers = {".jsonl": _jsonl, ".ndjson": _jsonl, ".json": _json, ".parquet": _parquet}
    read = readers.get(path.suffix.lower())
    if path.is_dir():
        raise DataError(f"{path} is a folder", hint="tasks.path names one file of tasks")
    if not path.exists():
        raise DataError(f"{path}: no such file", hint="tasks.path is relative to the current folder")
    if read is None:
        raise DataError(f"{path}: cannot tell what this file is", hint=f"task files are {KINDS}")
    try:
        for number, found in read(path):
            if isinstance(found, str):
                yield number, Problem(str(path), number, "", found)
            elif not isinstance(found, dict):
                yield number, Problem(str(path), number, "", f"a task is an object, not {_name(found)}")
            else:
                yield number, found
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}", hint="is the file complete?") from error


def _jsonl(path: Path) -> Iterator[tuple[int, Any]]:
    with path.open("rb") as file:
        number = 0
        while line := file.readline(MAX_LINE + 1):
            number += 1
            if len(line) > MAX_LINE and not line.endswith(b"\n"):
                while line and not line.endswith(b"\n"):
                    line = file.readline(MAX_LINE)
                yield number, f"longer than {MAX_LINE >> 20} MiB"
                continue
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")
            if line.strip():
                yield number, _decoded(line)


def _json(path: Path) -> Iterator[tuple[int, Any]]:
    if path.stat().st_size > MAX_JSON:
        raise DataError(f"{path}: larger than {MAX_JSON >> 20} MiB", hint="write one task a line, as .jsonl")
    whole = _decoded(path.read_bytes().removeprefix(b"\xef\xbb\xbf"))
    if isinstance(whole, str):
        raise DataError(f"{path}: {whole}", hint="a .json file holds a list of tasks, or an object keyed by id")
    if isinstance(whole, dict) and "instance_id" not in whole:
        whole = [{"instance_id": k, **v} if isinstance(v, dict) else v for k, v in whole.items()]
    yield from enumerate([whole] if isinstance(whole, dict) else whole, 1)


def _parquet(path: Path) -> Iterator[tuple[int, Any]]:
    import pyarrow
    import pyarrow.parquet

    number = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=256):
                for row in batch.to_pylist():
                    number += 1
                    yield number, row
    except pyarrow.ArrowException as error:
        raise DataError(f"{path}: not readable as Parquet after row {number}: {error}") from error


def _decoded(text: bytes) -> Any:
    """The JSON value, or a sentence that says what is wrong. A bare string is no task either."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return f"not JSON: {error}"
    return value if isinstance(value, (dict, list)) else f"a task is an object, not {_name(value)}"


def _name(value: object) -> str:
    return {list: "a list", str: "a string", type(None): "null"}.get(type(value), f"a {type(value).__name__}")
