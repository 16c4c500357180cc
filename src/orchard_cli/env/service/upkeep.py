"""What is done every second: leases, records that were lost, records whose server is dead, old keys and trees."""

import asyncio
import logging
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
TICK_S, STOPPED_S = 0.5, 2.0  # so much later than a tick should be, the whole process stood still
ROUND_S = 5.0  # how long a round waits for what it ends
SELDOM = 60  # rounds between sweeps of what grows slowly
log = logging.getLogger("orchard.env")
KINDS: tuple[Kind, ...] = ("sandbox", "snapshot")


class Upkeep:
    """Nothing is ended because a record is missing: only because its own lease ran out."""

    def __init__(
        self, fleet: Fleet, every_s: float = 1.0, *, alone: bool = False, url: str = "", dead_s: float = DEAD_S
    ):
        """`alone`: no other server can use this store, so that whatever wrote to it before is dead."""
        self._fleet, self._every_s, self._alone, self._url, self._dead_s = fleet, every_s, alone, url, dead_s
        self._beats: dict[str, tuple[int, float]] = {}  # of other servers: version of their record, since when
        self._round, self._ticked = 0, time.monotonic()
        self.healthy = True
        self._tasks: list[asyncio.Task[None]] = []
        self._ending: dict[str, asyncio.Task[None]] = {}

    async def start(self) -> None:
        """Say that this server lives, take away what dead ones left, and go on doing so."""
        await self._alive()
        await self.bury()
        self._ticked = time.monotonic()
        self._tasks = [asyncio.create_task(each()) for each in (self._loop, self._beating, self._ticking)]

    async def stop(self) -> None:
        tasks = [*self._tasks, *self._ending.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
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
            except Exception as error:  # noqa: BLE001 - the next round may do what this one could not
                self.healthy = False
                log.warning("a round of upkeep failed: %s: %s", type(error).__name__, error)

    async def _ticking(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self._tick()

    def _tick(self) -> None:
        """A server that was stopped has heard no renewal meanwhile: those may lie in its sockets."""
        now = time.monotonic()
        late, self._ticked = now - self._ticked - TICK_S, now
        if late > STOPPED_S:
            for live in self._fleet.lives.values():
                live.renewed, live.active = live.renewed + late, live.active + late

    async def _beating(self) -> None:
        """Apart from all else: other servers must not take a round that lasts for the death of this one."""
        while True:
            await asyncio.sleep(self._every_s)
            try:
                await self._alive()
            except Exception as error:  # noqa: BLE001 - the next one may be heard
                log.warning("a sign of life failed: %s: %s", type(error).__name__, error)

    async def sweep(self) -> dict[str, int]:
        """One round; counts of what was done."""
        try:
            return await self._sweep()
        finally:
            self._round += 1

    async def _sweep(self) -> dict[str, int]:
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
        return {"expired": ended, "restored": restored, "buried": buried, "trees": trees}

    async def expire(self) -> int:
        """Close what is overdue, all at once; what takes long holds up no later round."""
        self._tick()
        due = [live for live in self._fleet.lives.values() if live.settled.is_set() and live.overdue]
        tasks = [self._begin_end(live) for live in due if live.id not in self._ending]
        done = (await asyncio.wait(tasks, timeout=ROUND_S))[0] if tasks else ()
        return sum(not task.cancelled() and task.exception() is None for task in done)

    def _begin_end(self, live: Live) -> asyncio.Task[None]:
        task = self._ending[live.id] = asyncio.create_task(self._end(live))
        task.add_done_callback(lambda done: self._ended(live.id, done))
        return task

    def _ended(self, id: str, task: asyncio.Task[None]) -> None:
        del self._ending[id]
        if not task.cancelled() and (error := task.exception()):
            log.warning("%s could not be ended: %s", id, error)

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
