"""What is done every second: leases, records that were lost, records whose server is dead, old keys and trees."""

import asyncio
import time
from contextlib import suppress

from ...errors import SandboxError
from .bodies import Lifetime
from .fleet import Fleet
from .keys import Principal
from .live import Live
from .specs import new_id
from .store.store import Conflict, Kind, Record

DEAD_S = 30.0  # silence after which a server counts as dead
SELDOM = 60  # rounds between sweeps of what grows slowly
KINDS: tuple[Kind, ...] = ("sandbox", "snapshot")


class Upkeep:
    """Nothing is ended because a record is missing: only because its own lease ran out."""

    def __init__(
        self, fleet: Fleet, every_s: float = 1.0, *, alone: bool = False, url: str = "", dead_s: float = DEAD_S
    ):
        """`alone`: no other server can use this store, so that whatever wrote to it before is dead."""
        self._fleet, self._every_s, self._alone, self._url, self._dead_s = fleet, every_s, alone, url, dead_s
        self._beats: dict[str, tuple[int, float]] = {}  # of other servers: version of their record, since when
        self._round = 0
        self.healthy = True
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Say that this server lives, take away what dead ones left, and go on doing so."""
        await self._alive()
        await self.bury()
        self._task = asyncio.get_running_loop().create_task(self._loop())

    async def stop(self) -> None:
        if self._task:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        with suppress(SandboxError):
            await self._fleet.store.delete("server", self._fleet.server)

    async def _loop(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            try:
                await self.sweep()
                self.healthy = True
            except (SandboxError, Conflict):
                self.healthy = False  # the store; readiness says so, sandboxes go on

    async def sweep(self) -> dict[str, int]:
        """One round; counts of what was done."""
        ended = await self.expire()
        restored = await self.restore()
        await self._alive()
        buried = trees = 0
        if not self._alone or self._round % SELDOM == 0:
            buried = await self.bury()
        if self._round % SELDOM == 0:
            await self._fleet.store.expire("once", time.time())
            await self._fleet.store.expire("key", time.time())
            trees = await asyncio.to_thread(self._fleet.specs.trees.sweep)
        self._round += 1
        return {"expired": ended, "restored": restored, "buried": buried, "trees": trees}

    async def expire(self) -> int:
        """Close what is overdue, all at once."""
        due = [live for live in self._fleet.lives.values() if live.settled.is_set() and live.overdue]
        results = await asyncio.gather(*(self._end(live) for live in due), return_exceptions=True)
        return sum(result is None for result in results)

    async def _end(self, live: Live) -> None:
        if live.lifetime.on_expire == "snapshot" and live.kind == "sandbox" and live.box:
            owner = Principal(live.key, live.tenant, frozenset())
            kept = Lifetime(lease_s=86_400.0)
            with suppress(SandboxError):
                copy = await self._fleet.fork(live, owner, live.labels, kept, new_id("sn"), "snapshot")
                await copy.settled.wait()
        await self._fleet.delete(live, "expired: its lease, idle time or lifetime ended")

    async def restore(self) -> int:
        """Write again the records that the store lost; how many."""
        fleet, restored = self._fleet, 0
        known: set[str] = set()
        for kind in KINDS:
            known |= await self._ids(kind)
        for live in list(fleet.lives.values()):
            if live.state in ("ready", "failed") and (live.id not in known or live.version < 0):
                live.version = await fleet.store.put(live.record(), expect=None)
                restored += 1
        return restored

    async def _ids(self, kind: Kind) -> set[str]:
        after, found = "", set[str]()
        while page := await self._fleet.store.page(kind, after=after, limit=1000):
            found |= {record.id for record in page}
            after = page[-1].id
        return found

    async def _alive(self) -> None:
        fleet = self._fleet
        told = {"seen": time.time(), "sandboxes": len(fleet.lives), "url": self._url}
        record = Record("server", fleet.server, "", told)
        await fleet.store.put(record, expect=None)

    async def bury(self) -> int:
        """Records of servers that are dead, whose sandboxes died with them; how many."""
        fleet, buried = self._fleet, 0
        servers = await fleet.store.page("server", limit=1000)
        living = self._living(servers)
        if not self._alone and len(living) == len(servers) and self._round % SELDOM:
            return 0
        for kind in KINDS:
            after = ""
            while page := await fleet.store.page(kind, after=after, limit=1000):
                after = page[-1].id
                for record in page:
                    if record.body["server"] not in living and record.id not in fleet.lives:
                        with suppress(Conflict):  # another one was first
                            await fleet.store.delete(kind, record.id, expect=record.version)
                            fleet.lost(record)
                            buried += 1
        for record in servers:
            if record.id not in living:
                await fleet.store.delete("server", record.id)
        return buried

    def _living(self, servers: list[Record]) -> set[str]:
        """One that still writes. Seen by its record's version and our own clock: those of servers need not agree."""
        now, fleet = time.monotonic(), self._fleet
        if self._alone:
            return {fleet.server}
        before, self._beats = self._beats, {}
        for record in servers:
            version, since = before.get(record.id, (0, now))
            self._beats[record.id] = (record.version, since if version == record.version else now)
        return {fleet.server} | {id for id, (_, since) in self._beats.items() if now - since < self._dead_s}
