"""The embedded store: one SQLite file in WAL mode, one writer thread that commits whatever has gathered."""

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ....errors import SandboxError
from .store import Conflict, Kind, Record

SCHEMA = """
CREATE TABLE IF NOT EXISTS record (
    kind TEXT NOT NULL, id TEXT NOT NULL, tenant TEXT NOT NULL, version INTEGER NOT NULL,
    labels TEXT NOT NULL, body BLOB NOT NULL, expires REAL NOT NULL, PRIMARY KEY (kind, id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS record_tenant ON record (kind, tenant, id);
CREATE INDEX IF NOT EXISTS record_expires ON record (kind, expires) WHERE expires > 0;
"""
COLUMNS = "kind, id, tenant, body, labels, expires, version"
BATCH = 256  # requests of one transaction
Work = Callable[[sqlite3.Connection], Any]
Asked = tuple[Work, "asyncio.Future[Any]", asyncio.AbstractEventLoop]


class SqliteStore:
    """See `Store`. A commit survives the death of this process; answers are given only after it."""

    def __init__(self, path: Path | str):
        self._path = str(path)
        self._asked: queue.SimpleQueue[Asked | None] = queue.SimpleQueue()
        self._ready: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="orchard-store", daemon=True)
        self._thread.start()
        if error := self._ready.get():
            raise _failed(error) from error

    async def get(self, kind: Kind, id: str) -> Record | None:
        rows = await self._ask(lambda db: _select(db, "kind=? AND id=?", (kind, id)))
        return rows[0] if rows else None

    async def put(self, record: Record, *, expect: int | None) -> int:
        version: int = await self._ask(lambda db: _put(db, record, expect))
        return version

    async def delete(self, kind: Kind, id: str, *, expect: int | None = None) -> bool:
        deleted: bool = await self._ask(lambda db: _delete(db, kind, id, expect))
        return deleted

    async def page(
        self,
        kind: Kind,
        *,
        tenant: str | None = None,
        labels: Mapping[str, str] | None = None,
        after: str = "",
        limit: int = 100,
    ) -> list[Record]:
        where, values = "kind=? AND id>?", [kind, after]
        if tenant is not None:
            where, values = f"{where} AND tenant=?", [*values, tenant]
        for key, value in (labels or {}).items():
            where += " AND EXISTS (SELECT 1 FROM json_each(labels) WHERE key=? AND value=?)"
            values += [key, value]
        order = f"{where} ORDER BY id LIMIT {int(limit)}"
        found: list[Record] = await self._ask(lambda db: _select(db, order, tuple(values)))
        return found

    async def expire(self, kind: Kind, now: float) -> int:
        sql = "DELETE FROM record WHERE kind=? AND expires>0 AND expires<?"
        count: int = await self._ask(lambda db: db.execute(sql, (kind, now)).rowcount)
        return count

    async def close(self) -> None:
        self._asked.put(None)
        await asyncio.to_thread(self._thread.join)

    async def _ask(self, work: Work) -> Any:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._asked.put((work, future, loop))
        return await future

    def _serve(self) -> None:
        try:
            db = sqlite3.connect(self._path, isolation_level=None)
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=NORMAL")
            db.executescript(SCHEMA)
        except sqlite3.Error as error:
            self._ready.put(error)
            return
        self._ready.put(None)
        open_ = True
        while open_:
            batch = [self._asked.get()]
            while len(batch) < BATCH and not self._asked.empty():
                batch.append(self._asked.get())
            open_ = None not in batch
            _commit(db, [asked for asked in batch if asked is not None])
        db.close()


def _commit(db: sqlite3.Connection, batch: list[Asked]) -> None:
    """Each request in a savepoint of its own, all in one transaction; answers follow the commit."""
    answers: list[tuple[Asked, Any, BaseException | None]] = []
    try:
        db.execute("BEGIN IMMEDIATE")
        for asked in batch:
            db.execute("SAVEPOINT one")
            try:
                answers.append((asked, asked[0](db), None))
            except Conflict as conflict:
                answers.append((asked, None, conflict))
            except sqlite3.Error:
                raise
            except Exception as odd:  # noqa: BLE001 - what one request holds must not end the thread that serves all
                db.execute("ROLLBACK TO one")
                answers.append((asked, None, _failed(odd)))
            db.execute("RELEASE one")
        db.execute("COMMIT")
    except sqlite3.Error as failure:
        if db.in_transaction:
            db.execute("ROLLBACK")
        answers = [(asked, None, _failed(failure)) for asked in batch]
    for (_, future, loop), value, error in answers:
        loop.call_soon_threadsafe(_answer, future, value, error)


def _answer(future: "asyncio.Future[Any]", value: Any, error: BaseException | None) -> None:
    if future.done():  # whoever asked went away
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(value)


def _select(db: sqlite3.Connection, where: str, values: tuple[object, ...]) -> list[Record]:
    rows = db.execute(f"SELECT {COLUMNS} FROM record WHERE {where}", values)
    return [
        Record(kind, id, tenant, msgspec.json.decode(body), msgspec.json.decode(labels), expires, version)
        for kind, id, tenant, body, labels, expires, version in rows
    ]


def _version(db: sqlite3.Connection, kind: str, id: str) -> int:
    row = db.execute("SELECT version FROM record WHERE kind=? AND id=?", (kind, id)).fetchone()
    return row[0] if row else 0


def _put(db: sqlite3.Connection, record: Record, expect: int | None) -> int:
    version = _version(db, record.kind, record.id)
    if expect is not None and version != expect:
        raise Conflict(f"{record.kind} {record.id} is at version {version}, not {expect}")
    body, labels = msgspec.json.encode(record.body), msgspec.json.encode(record.labels).decode()
    values = (record.kind, record.id, record.tenant, body, labels, record.expires, version + 1)
    db.execute(f"INSERT OR REPLACE INTO record ({COLUMNS}) VALUES (?,?,?,?,?,?,?)", values)
    return version + 1


def _delete(db: sqlite3.Connection, kind: str, id: str, expect: int | None) -> bool:
    version = _version(db, kind, id)
    if expect is not None and version != expect:
        raise Conflict(f"{kind} {id} is at version {version}, not {expect}")
    return db.execute("DELETE FROM record WHERE kind=? AND id=?", (kind, id)).rowcount > 0


def _failed(error: BaseException) -> SandboxError:
    full = "disk is full" in str(error)
    code = "infra.disk_full" if full else "infra.store"
    hint = "free some space on the server's disk" if full else "is the state folder writable, and the file whole?"
    return SandboxError(f"the store failed: {error}", code=code, effect="none", retry="same", hint=hint)
