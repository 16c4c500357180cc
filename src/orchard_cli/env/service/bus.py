"""What happens to sandboxes, for whoever listens: one numbered journal, filtered by tenant."""

import time
from collections.abc import AsyncIterator
from typing import Any

from .journal import Journal
from .keys import Principal


class Bus:
    """Events: created, ready, failed, network (other rules), expired, deleted, lost, adopted (by the next server)."""

    def __init__(self) -> None:
        self._journal = Journal(max_bytes=4 << 20)

    def say(self, event: str, sandbox: str, tenant: str, **more: Any) -> None:
        self._journal.add({"time": round(time.time(), 3), "type": event, "sandbox": sandbox, "tenant": tenant, **more})

    def close(self) -> None:
        self._journal.close()

    async def follow(self, who: Principal, after: int | None) -> AsyncIterator[dict[str, Any]]:
        """From `after`, or only what comes from now on; gaps and pings included."""
        start = self._journal.last if after is None else min(after, self._journal.last)
        async for frame in self._journal.follow(start, ping_s=15.0):
            if who.admin or frame.get("tenant", who.tenant) == who.tenant:
                yield frame
