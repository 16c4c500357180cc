"""The store of several servers: one table in PostgreSQL. Each write is one statement that compares and sets."""

from collections.abc import Mapping
from typing import Any

import asyncpg
import msgspec

from ....errors import SandboxError
from .store import Conflict, Kind, Record

SCHEMA = """
CREATE TABLE IF NOT EXISTS orchard_record (
    kind text NOT NULL, id text NOT NULL COLLATE "C", tenant text NOT NULL, version bigint NOT NULL,
    labels jsonb NOT NULL, body jsonb NOT NULL, expires double precision NOT NULL, PRIMARY KEY (kind, id)
);
CREATE INDEX IF NOT EXISTS orchard_record_tenant ON orchard_record (kind, tenant, id);
CREATE INDEX IF NOT EXISTS orchard_record_labels ON orchard_record USING gin (labels);
CREATE INDEX IF NOT EXISTS orchard_record_expires ON orchard_record (kind, expires) WHERE expires > 0;
"""
COLUMNS = "kind, id, tenant, body::text, labels::text, expires, version"
INSERT = (
    "INSERT INTO orchard_record (kind, id, tenant, body, labels, expires, version) "
    "VALUES ($1, $2, $3, $4::jsonb, $5::jsonb, $6, 1) ON CONFLICT (kind, id) DO "
)
ALWAYS = INSERT + (
    "UPDATE SET tenant=$3, body=$4::jsonb, labels=$5::jsonb, expires=$6, version=orchard_record.version+1 "
    "RETURNING version"
)
NEW = INSERT + "NOTHING RETURNING version"
CHANGE = (
    "UPDATE orchard_record SET tenant=$3, body=$4::jsonb, labels=$5::jsonb, expires=$6, version=version+1 "
    "WHERE kind=$1 AND id=$2 AND version=$7 RETURNING version"
)
LOCK = 0x6F726368  # of making the table: two servers may start at once
FAILURES = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError)


class PostgresStore:
    """See `Store`. Connections that a restart of the server broke are made anew."""

    def __init__(self, pool: Any):
        self._pool = pool

    @classmethod
    async def open(cls, url: str) -> "PostgresStore":
        """Connect and make the table. Raises `SandboxError` if the server cannot be reached."""
        try:
            pool = await asyncpg.create_pool(url, min_size=1, max_size=8, timeout=10, command_timeout=30)
            async with pool.acquire() as connection, connection.transaction():
                await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
                await connection.execute(SCHEMA)
        except FAILURES as error:
            raise _failed(error) from error
        return cls(pool)

    async def get(self, kind: Kind, id: str) -> Record | None:
        rows = await self._rows(f"SELECT {COLUMNS} FROM orchard_record WHERE kind=$1 AND id=$2", kind, id)
        return _record(rows[0]) if rows else None

    async def put(self, record: Record, *, expect: int | None) -> int:
        sql = ALWAYS if expect is None else CHANGE if expect else NEW
        body, labels = msgspec.json.encode(record.body).decode(), msgspec.json.encode(record.labels).decode()
        values: list[Any] = [record.kind, record.id, record.tenant, body, labels, record.expires]
        rows = await self._rows(sql, *values, *([expect] if expect else []))
        if not rows:
            raise Conflict(f"{record.kind} {record.id} is not at version {expect}")
        return int(rows[0]["version"])

    async def delete(self, kind: Kind, id: str, *, expect: int | None = None) -> bool:
        sql = "DELETE FROM orchard_record WHERE kind=$1 AND id=$2"
        if expect is None:
            return bool(await self._rows(f"{sql} RETURNING id", kind, id))
        if await self._rows(f"{sql} AND version=$3 RETURNING id", kind, id, expect):
            return True
        if await self.get(kind, id) is not None or expect:
            raise Conflict(f"{kind} {id} is not at version {expect}")
        return False

    async def page(
        self,
        kind: Kind,
        *,
        tenant: str | None = None,
        labels: Mapping[str, str] | None = None,
        after: str = "",
        limit: int = 100,
    ) -> list[Record]:
        sql = (
            f"SELECT {COLUMNS} FROM orchard_record WHERE kind=$1 AND id>$2 AND ($3::text IS NULL OR tenant=$3) "
            "AND labels @> $4::jsonb ORDER BY id LIMIT $5"
        )
        wanted = msgspec.json.encode(dict(labels or {})).decode()
        return [_record(row) for row in await self._rows(sql, kind, after, tenant, wanted, limit)]

    async def expire(self, kind: Kind, now: float) -> int:
        sql = "DELETE FROM orchard_record WHERE kind=$1 AND expires>0 AND expires<$2 RETURNING id"
        return len(await self._rows(sql, kind, now))

    async def close(self) -> None:
        await self._pool.close()

    async def _rows(self, sql: str, *values: object) -> list[Any]:
        try:
            rows: list[Any] = await self._pool.fetch(sql, *values)
        except FAILURES as error:
            raise _failed(error) from error
        return rows


def _record(row: Any) -> Record:
    body, labels = msgspec.json.decode(row["body"]), msgspec.json.decode(row["labels"])
    return Record(row["kind"], row["id"], row["tenant"], body, labels, row["expires"], row["version"])


def _failed(error: Exception) -> SandboxError:
    full = isinstance(error, asyncpg.DiskFullError)
    return SandboxError(
        f"the store failed: {error or type(error).__name__}",
        code="infra.disk_full" if full else "infra.store",
        effect="unknown",
        retry="same",
        hint="is the PostgreSQL server up?",
    )
