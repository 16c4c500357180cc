"""YAML as people write it: no surprises in values, no key twice, and every fault named by file and field.

Plain YAML reads `12:30` as a number of seconds, `2026-03-01` as a date object and `no` as false. Here the first two
stay text, and only `true` and `false` are truth values.
"""

import re
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from orchard_cli.errors import DataError

MAX_FILE = 8 * 2**20  # bytes; a task file is written by hand
SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True)
class Problem:
    """What is wrong with one document of a file; `number` counts documents or rows from 1."""

    file: str
    number: int
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.number}: {f'`{self.field}`: ' if self.field else ''}{self.message}"


class FieldError(ValueError):
    """A field of a document is wrong; the reader adds file and number."""

    def __init__(self, field: str, message: str):
        super().__init__(f"`{field}`: {message}" if field else message)
        self.field, self.message = field, message


class _Loader(yaml.SafeLoader):
    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.events.AliasEvent):
            mark = self.peek_event().start_mark
            raise yaml.MarkedYAMLError(problem="aliases are not used in task files", problem_mark=mark)
        return super().compose_node(parent, index)


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, Hashable) or key in found:
            raise yaml.MarkedYAMLError(problem=f"`{key}` is given twice", problem_mark=key_node.start_mark)
        found[key] = loader.construct_object(value_node, deep=True)
    return found


_PLAIN = ("tag:yaml.org,2002:null", "tag:yaml.org,2002:merge")
_Loader.yaml_implicit_resolvers = {
    first: [(tag, rule) for tag, rule in rules if tag in _PLAIN]
    for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(true|false)$"), list("tf"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"^[-+]?(0|[1-9]\d*)$"), list("-+0123456789"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"^[-+]?(0|[1-9]\d*)\.\d+$"), list("-+0123456789"))
_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)


def files(path: Path) -> list[Path]:
    """The task files that `path` names: itself, or those in it. Raises `DataError` if there are none."""
    if path.is_dir():
        found = sorted(p for p in path.rglob("*") if p.suffix in SUFFIXES and p.is_file())
        if found:
            return found
        raise DataError(f"{path}: no .yaml file in this folder", hint="a task file ends in .yaml")
    if not path.is_file():
        raise DataError(f"{path}: no such file", hint="tasks.path is relative to the current folder")
    return [path]


def documents(file: Path) -> Iterator[tuple[int, dict[str, Any] | Problem]]:
    """(number, document or what is wrong with it), for each document between `---` lines."""
    number = 0
    try:
        if file.stat().st_size > MAX_FILE:
            yield 1, Problem(str(file), 1, "", f"larger than {MAX_FILE >> 20} MiB")
            return
        for number, value in enumerate(yaml.load_all(file.read_text("utf-8-sig"), _Loader), 1):  # noqa: S506 - safe
            if value is None:
                continue
            if not isinstance(value, dict):
                yield number, Problem(str(file), number, "", "a task is a list of `field: value` lines")
            else:
                yield number, value
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        yield number + 1, Problem(str(file), number + 1, "", _said(error))
    except OSError as error:
        raise DataError(f"{file}: {error.strerror or error}", hint="can this file be read?") from error


def parse(text: str) -> dict[str, Any]:
    """One page that stands in another file. Raises `FieldError`."""
    try:
        found = yaml.load(text, _Loader)  # noqa: S506 - safe
    except (yaml.YAMLError, RecursionError) as error:
        raise FieldError("", _said(error)) from error
    if not isinstance(found, dict):
        raise FieldError("", "is not a list of `field: value` lines")
    return found


def _said(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    what = getattr(error, "problem", None) or str(error).split("\n")[0]
    return f"line {mark.line + 1}: {what}" if mark else f"not readable as YAML: {what}"
