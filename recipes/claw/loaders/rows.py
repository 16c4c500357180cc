"""JSON and JSONL files of rows: each row an object, or what is wrong with its line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from orchard_cli.errors import DataError

from ..tasks.reading import Problem

MOST = 256 * 2**20  # bytes


def rows(path: str) -> Iterator[tuple[int, dict[str, Any] | Problem]]:
    """(number, row or problem). Raises `DataError` if the file cannot be read at all."""
    file = Path(path)
    if not file.is_file():
        raise DataError(f"{file}: no such file", hint="tasks.path names one .json or .jsonl file")
    if file.stat().st_size > MOST:
        raise DataError(f"{file}: larger than {MOST >> 20} MiB", hint="split it")
    text = file.read_text("utf-8-sig", errors="replace")
    if file.suffix == ".json":
        found = _decoded(text)
        if isinstance(found, str) or not isinstance(found, (list, dict)):
            raise DataError(f"{file}: {found}", hint="a .json file holds a list of rows")
        entries: list[tuple[int, Any]] = list(enumerate(found if isinstance(found, list) else [found], 1))
    else:
        entries = [(n, _decoded(line)) for n, line in enumerate(text.splitlines(), 1) if line.strip()]
    for number, entry in entries:
        good = isinstance(entry, dict)
        said = entry if isinstance(entry, str) else "a row is an object"
        yield number, entry if good else Problem(str(file), number, "", said)


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        return f"not JSON: {error}"
