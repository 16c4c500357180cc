"""What an attempt leaves to be judged: the world's end state, its audit log, and the answer. All of it is hostile."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from orchard_cli.errors import GradeError

from .world.service.operations import OPERATIONS

Row = Mapping[str, Any]
Tables = Mapping[str, list[Row]]


@dataclass(frozen=True)
class Event:
    """One call of an operation, as the world logged it. `code` is `ok`, or the word for why it was refused."""

    op: str
    args: Row
    code: str = "ok"
    fault: str = ""  # the kind of an injected one
    effects: tuple[Row, ...] = ()  # {kind, what, before, after}

    @property
    def ok(self) -> bool:
        return self.code == "ok"

    @property
    def effect(self) -> bool:
        """It changed the world; a call whose answer was lost may have, too."""
        return bool(self.effects) and self.op not in ("done", "user_ask")

    @property
    def final(self) -> bool:
        return self.op in OPERATIONS and OPERATIONS[self.op].irreversible


@dataclass(frozen=True)
class Evidence:
    tables: Tables = field(default_factory=dict)
    audit: tuple[Event, ...] = ()
    answer: str = ""

    def rows(self, table: str) -> list[Row]:
        return list(self.tables.get(table, ()))

    def calls(self, op: str) -> Iterator[Event]:
        return (event for event in self.audit if event.op == op and (event.ok or event.effect))

    def effects(self) -> Iterator[Event]:
        return (event for event in self.audit if event.effect)


def evidence(artifact: str) -> Evidence:
    """From the world's export. Raises `GradeError` if that is not what the world writes."""
    try:
        said = json.loads(artifact)
        events = tuple(
            Event(str(e["tool"]), dict(e["arguments"]), str(e["code"]), str(e["fault"] or ""), tuple(e["effects"]))
            for e in said["audit"]
        )
        tables = {str(name): [_named(name, row) for row in rows] for name, rows in said["state"].items()}
        return Evidence(tables, events, str(said["answer"] or ""))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise GradeError(
            f"the world's export cannot be read: {type(error).__name__}: {error}", code="export", retry="fresh"
        ) from error


def _named(table: str, row: Row) -> Row:
    """Files are known by their path, pages by their address, in checks as in operations."""
    alias = {"file": "path", "page": "url"}.get(table)
    return {alias: row["id"], **row} if alias else dict(row)
