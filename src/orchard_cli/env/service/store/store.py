"""The repository interface: versioned records, written by compare-and-set.

It holds who may do what and what exists: keys, sandboxes, snapshots, which keyed requests began, which servers
live. Never the output of a command, a secret or a file. A store that is wiped is filled again from what lives.
"""

from collections.abc import Mapping
from typing import Any, Literal, Protocol

import msgspec

Kind = Literal["sandbox", "snapshot", "key", "once", "server"]


class Record(msgspec.Struct, frozen=True):
    """One thing. `version` starts at 1 and grows by 1 with each write; `expires` 0: never."""

    kind: Kind
    id: str
    tenant: str
    body: dict[str, Any]
    labels: dict[str, str] = {}
    expires: float = 0.0  # seconds since 1970
    version: int = 0


class Conflict(Exception):
    """The record is not at the version that the writer had seen."""


class Store(Protocol):
    """Raises `SandboxError(code="infra.store" | "infra.disk_full")` where the store itself fails."""

    async def get(self, kind: Kind, id: str) -> Record | None: ...

    async def put(self, record: Record, *, expect: int | None) -> int:
        """Write; the new version. `expect` 0: must not exist; None: whatever is there. Raises `Conflict`."""
        ...

    async def delete(self, kind: Kind, id: str, *, expect: int | None = None) -> bool:
        """Whether there was one. Raises `Conflict` if it is at another version than `expect`."""
        ...

    async def page(
        self,
        kind: Kind,
        *,
        tenant: str | None = None,
        labels: Mapping[str, str] | None = None,
        after: str = "",
        limit: int = 100,
    ) -> list[Record]:
        """By id, those after `after`; `tenant` None: of all tenants."""
        ...

    async def expire(self, kind: Kind, now: float) -> int:
        """Delete what expired before `now`; how many."""
        ...

    async def close(self) -> None: ...
