"""The state: one SQLite database in memory, rows as plain dicts, and a record of what the current call has done.

In memory, so that nothing in the sandbox but this process can read or change it.
"""

import json
import sqlite3
from typing import Any

from .answer import Refusal

Row = dict[str, Any]
NUMBERED = {  # table → prefix of the ids that are made up
    "mail": "m",
    "event": "e",
    "contact": "c",
    "note": "n",
    "todo": "t",
    "payment": "b",
    "expense": "x",
    "order": "o",
    "share": "s",
    "question": "q",
    "product": "p",
}
# Columns by type: text as it is, int, bool, money (stored in cents), list (stored as JSON).
TABLES: dict[str, dict[str, str]] = {
    "mail": {
        **dict.fromkeys(("folder", "sender", "subject", "body", "at", "reply_to"), "text"),
        **dict.fromkeys(("recipients", "cc", "attachments"), "list"),
        **dict.fromkeys(("unread", "starred"), "bool"),
    },
    "event": {**dict.fromkeys(("title", "start", "end", "tz", "location", "notes"), "text"), "attendees": "list"},
    "contact": dict.fromkeys(("name", "email", "phone", "company", "notes"), "text"),
    "file": {"text": "text", "broken": "bool"},
    "share": dict.fromkeys(("path", "person"), "text"),
    "note": dict.fromkeys(("title", "text"), "text"),
    "todo": {"text": "text", "due": "text", "done": "bool"},
    "account": {"name": "text", "currency": "text", "balance": "money"},
    "payment": {**dict.fromkeys(("account", "date", "payee", "memo"), "text"), "amount": "money"},
    "expense": {**dict.fromkeys(("date", "category", "merchant", "notes", "status"), "text"), "amount": "money"},
    "product": {"name": "text", "price": "money", "stock": "int", "about": "text"},
    "order": {
        **dict.fromkeys(("product", "date", "address", "status", "reason"), "text"),
        "quantity": "int",
        "total": "money",
    },
    "page": dict.fromkeys(("title", "text"), "text"),
    "question": dict.fromkeys(("at", "about", "reply"), "text"),
}
SQL_TYPE = {"text": "TEXT", "list": "TEXT", "int": "INTEGER", "bool": "INTEGER", "money": "INTEGER"}


class State:
    """Rows by table and id. `effects` holds what was changed since `begin`."""

    def __init__(self) -> None:
        self.db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self.db.row_factory = sqlite3.Row
        self.effects: list[Row] = []
        self._last: dict[str, int] = {}  # highest number in a made-up id, by table
        self._kept = self._last
        for table, columns in TABLES.items():
            fields = "".join(f', "{name}" {SQL_TYPE[kind]} NOT NULL' for name, kind in columns.items())
            self.db.execute(
                f'CREATE TABLE "{table}" (place INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, '
                f"version INTEGER NOT NULL DEFAULT 1{fields}) STRICT"
            )

    def begin(self) -> None:
        self.effects, self._kept = [], dict(self._last)
        self.db.execute("BEGIN")

    def commit(self) -> None:
        self.db.execute("COMMIT")

    def rollback(self) -> None:
        self.effects, self._last = [], self._kept
        self.db.execute("ROLLBACK")

    def rows(self, table: str) -> list[Row]:
        """All rows, in the order in which they came to be."""
        return [_row(table, row) for row in self.db.execute(f'SELECT * FROM "{table}" ORDER BY place')]

    def find(self, table: str, id: str) -> Row | None:
        row = self.db.execute(f'SELECT * FROM "{table}" WHERE id = ?', (id,)).fetchone()
        return _row(table, row) if row else None

    def get(self, table: str, id: str, word: str = "") -> Row:
        """Raises `Refusal` where there is none."""
        row = self.find(table, id)
        if row is None:
            raise Refusal("not_found", f"no {word or table} {id[:60]}")
        return row

    def insert(self, table: str, row: Row, kind: str = "create") -> Row:
        """The row as stored: with an id and empty values where it has none."""
        empty = {"text": "", "list": [], "int": 0, "bool": False, "money": 0.0}
        whole = {name: row.get(name, empty[of]) for name, of in TABLES[table].items()}
        whole = {"id": row.get("id") or self.fresh_id(table), **whole}
        names = ", ".join(f'"{name}"' for name in whole)
        marks = ", ".join("?" for _ in whole)
        values = [_packed(table, name, value) for name, value in whole.items()]
        self.db.execute(f'INSERT INTO "{table}" ({names}) VALUES ({marks})', values)
        self._count(table, whole["id"])
        after = self.get(table, whole["id"])
        self._note(kind, table, after["id"], None, after)
        return after

    def update(self, table: str, id: str, changes: Row, kind: str = "update") -> Row:
        """Set columns; a change of nothing is none. Raises `Refusal` where there is no such row."""
        before = self.get(table, id)
        changes = {name: value for name, value in changes.items() if before[name] != value}
        if not changes:
            return before
        sets = ", ".join(f'"{name}" = ?' for name in changes)
        values = [_packed(table, name, value) for name, value in changes.items()]
        self.db.execute(f'UPDATE "{table}" SET {sets}, version = version + 1 WHERE id = ?', (*values, id))
        after = self.get(table, changes.get("id", id))
        self._note(kind, table, id, before, after)
        return after

    def delete(self, table: str, id: str) -> Row:
        before = self.get(table, id)
        self.db.execute(f'DELETE FROM "{table}" WHERE id = ?', (id,))
        self._note("delete", table, id, before, None)
        return before

    def fresh_id(self, table: str) -> str:
        """Never one that was used before, also by a row that is gone."""
        return f"{NUMBERED[table]}{self._last.get(table, 0) + 1}"

    def dump(self) -> dict[str, list[Row]]:
        """Every table, rows by id."""
        return {table: sorted(self.rows(table), key=lambda row: row["id"]) for table in TABLES}

    def _count(self, table: str, id: str) -> None:
        number = id[1:]
        if id[:1] == NUMBERED.get(table) and number.isascii() and number.isdigit() and len(number) < 10:
            self._last[table] = max(self._last.get(table, 0), int(number))

    def _note(self, kind: str, table: str, id: str, before: Row | None, after: Row | None) -> None:
        self.effects.append({"kind": kind, "what": f"{table}:{id}", "before": before, "after": after})


def _packed(table: str, name: str, value: Any) -> Any:
    kind = TABLES[table].get(name, "text")
    if kind == "money":
        return round(value * 100)
    if kind == "list":
        return json.dumps(value, ensure_ascii=False)
    return int(value) if kind == "bool" else value


def _row(table: str, row: sqlite3.Row) -> Row:
    kinds = TABLES[table]
    return {name: _unpacked(kinds.get(name, "int"), row[name]) for name in row.keys() if name != "place"}  # noqa: SIM118


def _unpacked(kind: str, value: Any) -> Any:
    if kind == "money":
        return value / 100
    if kind == "list":
        return json.loads(value)
    return bool(value) if kind == "bool" else value
