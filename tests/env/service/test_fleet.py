"""What a server holds, where the store or a back end fails it in the middle."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from orchard_cli.env.sandbox import Spec
from orchard_cli.env.service import adoption, heritage, upkeep
from orchard_cli.env.service.bodies import Lifetime
from orchard_cli.env.service.bus import Bus
from orchard_cli.env.service.fleet import Fleet
from orchard_cli.env.service.keys import Principal
from orchard_cli.env.service.live import Live, Terms
from orchard_cli.env.service.metrics import Metrics
from orchard_cli.env.service.store.sqlite import SqliteStore
from orchard_cli.env.service.store.store import Record
from orchard_cli.env.service.trees import Trees
from orchard_cli.errors import SandboxError

WHO = Principal("k", "t", frozenset(("read", "use", "create")), max_sandboxes=10)
Scene = Callable[[Fleet], Awaitable[None]]


def played(folder: Path, scene: Scene) -> None:
    """Against a fleet whose back end is not asked for anything."""

    async def main() -> None:
        store = SqliteStore(folder / "store.sqlite")
        specs: Any = SimpleNamespace(trees=Trees(folder / "trees"))
        env: Any = SimpleNamespace(describe=dict)
        fleet = Fleet(env, store, specs, Bus(), Metrics(), Terms(), "me")
        try:
            await asyncio.wait_for(scene(fleet), 30)
        finally:
            await asyncio.wait_for(fleet.close(), 30)
            await store.close()

    asyncio.run(main())


def one(fleet: Fleet, id: str, lease_s: float = 600.0) -> Live:
    return fleet._live(id, WHO, Spec(), "host", {}, Lifetime(lease_s=lease_s), [])


def test_one_that_was_not_let_in_can_be_closed_and_takes_nothing_with_it(tmp_path: Path) -> None:
    """Another server took the name first; who asked for the end of ours meanwhile is not left waiting."""

    async def scene(fleet: Fleet) -> None:
        theirs = Record("sandbox", "a", "t", {"server": "other", "key": "k"})
        await fleet.store.put(theirs, expect=0)
        live = one(fleet, "a")
        entering = asyncio.create_task(fleet._admit(live, WHO))
        while "a" not in fleet.lives:
            await asyncio.sleep(0)
        closing = asyncio.create_task(fleet.delete(live))
        with pytest.raises(SandboxError) as caught:
            await entering
        assert caught.value.fault.code == "client.id_taken"
        await asyncio.wait_for(closing, 10)
        assert await fleet.store.get("sandbox", "a") is not None and not fleet.lives

    played(tmp_path, scene)


def test_a_store_that_fails_while_one_is_counted_leaves_nothing(tmp_path: Path) -> None:
    async def scene(fleet: Fleet) -> None:
        async def fails(*_: object, **__: object) -> list[Record]:
            raise SandboxError("no connection", code="infra.store")

        fleet.shared, page = True, fleet.store.page
        cast(Any, fleet.store).page = fails
        live = one(fleet, "a")
        with pytest.raises(SandboxError, match="no connection"):
            await fleet._admit(live, WHO)
        cast(Any, fleet.store).page = page
        assert live.settled.is_set() and not fleet.lives
        assert await fleet.store.get("sandbox", "a") is None

    played(tmp_path, scene)


def test_upkeep_goes_on_after_a_round_that_fails_and_beside_one_that_lasts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "ROUND_S", 0.01)

    async def scene(fleet: Fleet) -> None:
        failed, held = asyncio.Event(), threading.Event()

        loop = asyncio.get_running_loop()

        def fails() -> int:
            loop.call_soon_threadsafe(failed.set)
            raise OSError("an odd one")

        cast(Any, fleet.specs.trees).sweep = fails
        keeping = upkeep.Upkeep(fleet, 0.01)
        await keeping.start()
        await asyncio.wait_for(failed.wait(), 10)
        for id, close in (("slow", held.wait), ("quick", lambda: None)):
            live = one(fleet, id, lease_s=0.01)
            live.box, live.state = cast(Any, SimpleNamespace(close=close, workdir="/")), "ready"
            fleet.lives[id] = live
            live.settled.set()
        while "quick" in fleet.lives:
            await asyncio.sleep(0.01)
        assert "slow" in fleet.lives
        later = one(fleet, "later", lease_s=0.01)
        later.failed(SandboxError("x", code="x"))
        later.renewed -= 100
        fleet.lives["later"] = later
        seen = (await fleet.store.page("server"))[0].version
        while "later" in fleet.lives or (await fleet.store.page("server"))[0].version == seen:
            await asyncio.sleep(0.01)
        held.set()
        await keeping.stop()

    played(tmp_path, scene)


def test_one_that_seemed_lost_is_found_where_it_is(tmp_path: Path) -> None:
    """Its server could not reach the store for a while, was taken for dead, and has written it down again."""

    async def scene(fleet: Fleet) -> None:
        theirs = Record("sandbox", "a", "t", {"server": "other", "key": "k"})
        fleet.lost(theirs)
        with pytest.raises(SandboxError) as caught:
            await fleet.locate("a", WHO)
        assert caught.value.fault.code == "infra.sandbox_lost"
        await fleet.store.put(theirs, expect=0)
        with pytest.raises(SandboxError) as caught:
            await fleet.locate("a", WHO)
        assert caught.value.fault.code == "client.other_server"

    played(tmp_path, scene)


def test_a_server_that_stood_still_ends_nobody_for_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What would have renewed the leases lies in its sockets, or could not be sent."""
    monkeypatch.setattr(upkeep, "STOPPED_S", 0.5)
    monkeypatch.setattr(upkeep, "TICK_S", 0.01)

    async def scene(fleet: Fleet) -> None:
        live = one(fleet, "a", lease_s=3.0)
        live.box, live.state = cast(Any, SimpleNamespace(close=lambda: None, workdir="/")), "ready"
        fleet.lives["a"] = live
        live.settled.set()
        keeping = upkeep.Upkeep(fleet, 0.01)
        await keeping.start()
        await asyncio.sleep(0.05)
        time.sleep(5.0)  # noqa: ASYNC251 - as SIGSTOP does
        await asyncio.sleep(0.05)
        assert "a" in fleet.lives
        while "a" in fleet.lives:
            await asyncio.sleep(0.01)
        await keeping.stop()

    played(tmp_path, scene)


def test_what_cannot_be_taken_over_is_shown_to_nobody(tmp_path: Path) -> None:
    """Nor does it keep the next server from starting when it cannot even be closed."""

    async def scene(fleet: Fleet) -> None:
        async def fails(*_: object, **__: object) -> int:
            raise SandboxError("no connection", code="infra.store")

        def broken() -> None:
            raise SandboxError("no answer", code="infra.agent_silent")

        live = one(fleet, "a")
        note = heritage.Note(**{name: getattr(live, name) for name in heritage.Note.__struct_fields__})
        text = msgspec.json.encode(note, enc_hook=str).decode()
        box = SimpleNamespace(workdir="/", close=lambda: None)
        cast(Any, fleet.env).left = (SimpleNamespace(note=text, dead="", open=lambda spec: box, close=broken),)
        cast(Any, fleet.store).put = fails
        assert await adoption.take_over(fleet, lambda live: lambda _: None) == 0
        assert not fleet.lives

    played(tmp_path, scene)
