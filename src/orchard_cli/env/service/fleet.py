"""All sandboxes of this server: made, found, forked, closed. What exists is what the back end holds, never a record."""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from ...errors import SandboxError
from ..local.refusals import no_live_fork
from ..sandbox import Env, Sandbox, Spec
from . import heritage, quota
from .bodies import Lifetime, SandboxBody, SandboxView
from .bus import Bus
from .execs import Execs
from .gone import MISSING, Gone
from .keys import Principal
from .live import Live, Terms, recorded
from .metrics import Metrics
from .problem import refused
from .specs import Specs, check_id, check_labels, new_id, taken
from .store.store import Conflict, Kind, Record, Store

T = TypeVar("T")


class Fleet:
    """All methods belong to the event loop; the back end is called in threads.

    `commands` runs commands, `inputs` waits for those that do not read theirs and for clients that send slowly,
    `chores` does everything else, so that neither ever keeps a sandbox from being closed.
    """

    def __init__(self, env: Env, store: Store, specs: Specs, bus: Bus, metrics: Metrics, terms: Terms, server: str):
        self.env, self.store, self.specs, self.bus, self.metrics = env, store, specs, bus, metrics
        self.terms, self.server = terms, server
        told = env.describe()
        self.isolation, self.level, self.forks = (str(told.get(name, "")) for name in ("isolation", "network", "fork"))
        self.lives: dict[str, Live] = {}
        self.commands = ThreadPoolExecutor(512, thread_name_prefix="exec")
        self.inputs = ThreadPoolExecutor(512, thread_name_prefix="input")
        self.chores = ThreadPoolExecutor(32, thread_name_prefix="chore")
        self.stopping = self.shared = False  # shared: other servers use this store too
        self._gone = Gone()
        self._closing: dict[str, asyncio.Task[None]] = {}
        self._making: set[asyncio.Task[None]] = set()

    async def create(self, body: SandboxBody, who: Principal, proof: str, id: str = "") -> Live:
        """A sandbox that is being made; `Live.settled` says when it is done. Raises before anything is made."""
        if body.from_snapshot:
            return await self._from_snapshot(body, who, id)
        spec, trees = self.specs.read(body, who.tenant, proof)
        live = self._live(body.id or id or new_id(), who, spec, body.image, body.labels, body.lifetime, trees)
        await self._admit(live, who, self.env)
        self._make(live, lambda: self.env.open(spec))
        return live

    async def _from_snapshot(self, body: SandboxBody, who: Principal, id: str) -> Live:
        plain = SandboxBody(id=body.id, labels=body.labels, lifetime=body.lifetime, from_snapshot=body.from_snapshot)
        if body != plain:
            raise refused("a snapshot brings everything but id, labels and lifetime", "client.bad_request")
        check_id(body.id)
        check_labels(body.labels)
        source = await self.locate(body.from_snapshot, who, "snapshot")
        return await self.fork(source, who, body.labels, body.lifetime, body.id or id or new_id())

    async def fork(
        self,
        source: Live,
        who: Principal,
        labels: dict[str, str],
        lifetime: Lifetime,
        id: str,
        kind: Kind = "sandbox",
        processes: bool = False,
    ) -> Live:
        await source.settled.wait()
        box, _ = source.open_box()
        if processes and "runs" not in self.forks:
            raise no_live_fork()
        for place in source.trees:
            self.specs.trees.retain(place)
        live = self._live(id, who, source.spec, source.image, labels, lifetime, list(source.trees), kind)
        await self._admit(live, who)
        self._make(live, partial(box.fork, processes=True) if processes else box.fork, processes)
        source.touch()
        return live

    def _live(
        self,
        id: str,
        who: Principal,
        spec: Spec,
        image: str,
        labels: dict[str, str],
        lifetime: Lifetime,
        trees: list[Path],
        kind: Kind = "sandbox",
    ) -> Live:
        live = Live(id, who.tenant, who.key, spec, image, dict(labels), lifetime, self.terms, self.server, kind)
        live.trees, live.isolation, live.level = trees, self.isolation, self.level
        return live

    async def _admit(self, live: Live, who: Principal, env: Env | None = None) -> None:
        """Count it, take its name, write it down: then it may be made. `env`: whose word is asked for first."""
        try:
            if self.stopping:
                raise refused("the service is stopping", "capacity.closing")
            if isinstance(env, heritage.Checks):
                env.check(live.spec)
            if (held := self.lives.get(live.id)) and held.yields_to(live):
                await self.delete(held)
            if sum(held.key == who.key for held in self.lives.values()) >= who.max_sandboxes:
                raise quota.exceeded(who)
            if live.id in self.lives:
                raise taken(live.id)
            await self._enter(live, who)
        except BaseException:
            self._release(live)
            raise
        self._gone.forget(live.id)
        self.bus.say("created", live.id, live.tenant, labels=live.labels)

    async def _enter(self, live: Live, who: Principal) -> None:
        self.lives[live.id] = live
        try:
            live.version = await self.store.put(live.record(), expect=0)
            if self.shared and await quota.held(self.store, who) > who.max_sandboxes:
                raise quota.exceeded(who)
        except Conflict:
            raise taken(live.id) from None
        except BaseException:
            written, live.version = live.version, 0
            if written:
                await self.store.delete(live.kind, live.id)
            raise
        finally:
            if not live.version:
                del self.lives[live.id]
                live.failed(taken(live.id))  # whoever wants it closed meanwhile waits for that

    def _make(self, live: Live, how: Callable[[], Sandbox], inherits: bool = False) -> None:
        task = asyncio.create_task(self._open(live, how, inherits))
        self._making.add(task)
        task.add_done_callback(self._making.discard)

    async def _open(self, live: Live, how: Callable[[], Sandbox], inherits: bool) -> None:
        with self.metrics.timed("create"):
            try:
                box = await self.chore(lambda: heritage.noted(self.env, live, how()))
            except SandboxError as error:
                live.failed(error)
                self.metrics.fault(error.fault)
                self.bus.say("failed", live.id, live.tenant, code=error.fault.code)
            else:
                execs = Execs(live.id, box, self.commands)
                if inherits:
                    with suppress(SandboxError):  # said again to whoever uses it
                        await execs.inherit()
                live.ready(box, execs)
                self.bus.say("ready", live.id, live.tenant)
        await self._write(live)

    async def _write(self, live: Live) -> None:
        """The record follows what is; one that was lost is made anew by the upkeep."""
        try:
            live.version = await self.store.put(live.record(), expect=live.version)
        except (Conflict, SandboxError):
            live.version = -1

    async def chore(self, work: Callable[[], T], pool: Executor | None = None) -> T:
        """Run a call of the back end in a thread. Whatever it raises comes out as `SandboxError`."""
        try:
            return await asyncio.get_running_loop().run_in_executor(pool or self.chores, work)
        except SandboxError:
            raise
        except Exception as error:  # noqa: BLE001 - the named boundary to any back end
            raise SandboxError(f"{type(error).__name__}: {error}", code="infra.backend") from error

    def get(self, id: str, who: Principal, kind: Kind = "sandbox") -> Live:
        """Another tenant's is as if it did not exist. Raises `client.no_such_sandbox` and `client.gone`."""
        if (live := self.lives.get(id)) and live.seen_by(who) and live.kind == kind:
            return live
        raise self._gone.told(id, who, kind)

    async def locate(self, id: str, who: Principal, kind: Kind = "sandbox") -> Live:
        """As `get`; raises `client.other_server`, which names it and its address, where another one holds it."""
        try:
            return self.get(id, who, kind)
        except SandboxError as error:
            asked = error.fault.code in (MISSING[kind], "infra.sandbox_lost")  # one that seemed lost may have come back
            record = await self.store.get(kind, id) if asked else None
            owner = record.body["server"] if record and (who.admin or record.tenant == who.tenant) else self.server
            if owner == self.server:
                raise
            found = await self.store.get("server", owner)
            hint = f"ask {found.body['url']}" if found and found.body.get("url") else ""
            raise refused(f"{kind} {id} is held by {owner}", "client.other_server", retry="same", hint=hint) from None

    async def page(
        self, who: Principal, labels: Mapping[str, str], after: str, limit: int, kind: Kind = "sandbox"
    ) -> list[SandboxView]:
        tenant = None if who.admin else who.tenant
        found = await self.store.page(kind, tenant=tenant, labels=labels, after=after, limit=limit)
        return [self.lives[r.id].view() if r.id in self.lives else recorded(r) for r in found]

    async def delete(self, live: Live, why: str = "deleted") -> None:
        """Close it and every trace. Any number may ask at once."""
        if (task := self._closing.get(live.id)) is None:
            task = asyncio.get_running_loop().create_task(self._close(live, why))
            self._closing[live.id] = task
        await asyncio.shield(task)

    async def _close(self, live: Live, why: str) -> None:
        try:
            await live.settled.wait()
            live.state = "closing"
            if live.box:
                with self.metrics.timed("delete"):
                    await self.chore(live.box.close)
            if live.execs:
                await live.execs.settle()
            if live.version:  # else the name may be another one's
                await self.store.delete(live.kind, live.id)
        finally:
            del self._closing[live.id]
        if self.lives.get(live.id) is live:
            del self.lives[live.id]
        self._release(live)
        self._gone.remember(live.id, live.tenant, why)
        self.bus.say(why.partition(":")[0], live.id, live.tenant)

    def lost(self, record: Record) -> None:
        """It died with the server that held it."""
        self._gone.remember(record.id, record.tenant, "lost: the server that held it died")
        self.bus.say("lost", record.id, record.tenant)

    def _release(self, live: Live) -> None:
        while live.trees:
            self.specs.trees.release(live.trees.pop())

    async def close(self) -> None:
        """Close all; no new ones."""
        self.stopping = True
        closings = [self.delete(live) for live in list(self.lives.values())]
        await asyncio.gather(*closings, return_exceptions=True)
        for pool in (self.commands, self.inputs, self.chores):
            pool.shutdown(wait=False)
