"""Every store keeps the same promises. PostgreSQL is a real server, started here."""

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from orchard_cli.env.service.store.sqlite import SqliteStore
from orchard_cli.env.service.store.store import Conflict, Record, Store
from orchard_cli.errors import SandboxError

from .postgres import Postgres

Scenario = Callable[[Store], Awaitable[None]]


@pytest.fixture(params=["sqlite", "postgres"])
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Scenario], None]:
    """Run a scenario against an empty store of each kind."""
    url = request.getfixturevalue("postgres").url if request.param == "postgres" else ""

    def run(scenario: Scenario) -> None:
        async def main() -> None:
            async with opened(url, tmp_path) as store:
                await scenario(store)

        asyncio.run(main())

    return run


@asynccontextmanager
async def opened(url: str, folder: Path) -> AsyncIterator[Store]:
    store: Store
    if url:
        import asyncpg

        from orchard_cli.env.service.store.postgres import PostgresStore

        store = await PostgresStore.open(url)
        connection = await asyncpg.connect(url)
        await connection.execute("TRUNCATE orchard_record")
        await connection.close()
    else:
        store = SqliteStore(folder / "store.sqlite")
    try:
        yield store
    finally:
        await store.close()


def record(id: str, tenant: str = "t", expires: float = 0.0, **labels: str) -> Record:
    return Record("sandbox", id, tenant, {"state": "ready", "n": 1.5, "deep": [1, {"a": None}]}, labels, expires)


def test_what_is_put_is_got(play: Callable[[Scenario], None]) -> None:
    async def scenario(store: Store) -> None:
        wanted = record("a", x="ü", y="'; DROP TABLE record; --")
        assert await store.put(wanted, expect=0) == 1
        found = await store.get("sandbox", "a")
        assert found is not None
        assert (found.body, found.labels, found.version) == (wanted.body, wanted.labels, 1)
        assert await store.get("snapshot", "a") is None

    play(scenario)


def test_a_stale_writer_is_told(play: Callable[[Scenario], None]) -> None:
    async def scenario(store: Store) -> None:
        await store.put(record("a"), expect=0)
        with pytest.raises(Conflict):
            await store.put(record("a"), expect=0)
        assert await store.put(record("a"), expect=1) == 2
        for stale in (1, 3):
            with pytest.raises(Conflict):
                await store.put(record("a"), expect=stale)
        with pytest.raises(Conflict):
            await store.delete("sandbox", "a", expect=1)
        assert await store.put(record("a"), expect=None) == 3
        assert await store.delete("sandbox", "a", expect=3)
        assert not await store.delete("sandbox", "a")

    play(scenario)


def test_of_many_who_want_the_same_one_gets_it(play: Callable[[Scenario], None]) -> None:
    async def scenario(store: Store) -> None:
        results = await asyncio.gather(*(store.put(record("a"), expect=0) for _ in range(50)), return_exceptions=True)
        assert results.count(1) == 1
        assert sum(isinstance(result, Conflict) for result in results) == 49

    play(scenario)


def test_pages_are_ordered_and_filtered(play: Callable[[Scenario], None]) -> None:
    async def scenario(store: Store) -> None:
        for number in range(9):
            await store.put(record(f"s{number}", "ab"[number % 2], group=str(number % 3)), expect=0)
        first = await store.page("sandbox", limit=4)
        second = await store.page("sandbox", after=first[-1].id, limit=100)
        assert [r.id for r in first + second] == [f"s{number}" for number in range(9)]
        found = await store.page("sandbox", tenant="a", labels={"group": "0"})
        assert [r.id for r in found] == ["s0", "s6"]
        assert await store.page("sandbox", labels={"group": "0", "none": "1"}) == []

    play(scenario)


def test_only_what_expired_goes(play: Callable[[Scenario], None]) -> None:
    async def scenario(store: Store) -> None:
        for id, expires in (("never", 0.0), ("past", 5.0), ("future", 15.0)):
            await store.put(record(id, expires=expires), expect=0)
        assert await store.expire("sandbox", 10.0) == 1
        assert [r.id for r in await store.page("sandbox")] == ["future", "never"]

    play(scenario)


def test_what_was_answered_survives_a_kill(tmp_path: Path) -> None:
    code = (
        "import asyncio, os, sys\n"
        "from orchard_cli.env.service.store.sqlite import SqliteStore\n"
        "from orchard_cli.env.service.store.store import Record\n"
        "async def main():\n"
        "    store = SqliteStore(sys.argv[1])\n"
        "    for n in range(200): await store.put(Record('once', f'{n:03}', 't', {}), expect=0)\n"
        "    os.kill(os.getpid(), 9)\n"
        "asyncio.run(main())\n"
    )
    path = tmp_path / "store.sqlite"
    assert subprocess.run([sys.executable, "-c", code, str(path)]).returncode == -9

    async def count() -> int:
        store = SqliteStore(path)
        found = await store.page("once", limit=1000)
        await store.close()
        return len(found)

    assert asyncio.run(count()) == 200


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(SandboxError) as caught:
        SqliteStore(tmp_path / "none" / "store.sqlite")
    assert caught.value.fault.code == "infra.store"


def test_a_full_database_is_told_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = SqliteStore(tmp_path / "store.sqlite")
        await store._ask(lambda db: db.execute("PRAGMA max_page_count=12").fetchall())
        with pytest.raises(SandboxError) as caught:
            for number in range(1000):
                await store.put(record(f"{number}", pad="x" * 500), expect=0)
        assert caught.value.fault.code == "infra.disk_full"
        assert caught.value.fault.effect == "none"
        await store._ask(lambda db: db.execute("PRAGMA max_page_count=10000").fetchall())
        assert await store.put(record("more"), expect=0) == 1
        await store.close()

    asyncio.run(scenario())


def test_a_postgres_that_is_restarted_is_used_again(postgres: Postgres) -> None:
    from orchard_cli.env.service.store.postgres import PostgresStore

    async def scenario() -> None:
        store = await PostgresStore.open(postgres.url)
        await store.put(record("kept"), expect=None)
        await asyncio.to_thread(postgres.stop)
        with pytest.raises(SandboxError) as caught:
            await store.get("sandbox", "kept")
        assert (caught.value.fault.code, caught.value.fault.retry) == ("infra.store", "same")
        await asyncio.to_thread(postgres.start)
        until = time.monotonic() + 30
        while time.monotonic() < until:
            try:
                assert await store.get("sandbox", "kept") is not None
                break
            except SandboxError:
                await asyncio.sleep(0.1)
        await store.close()

    asyncio.run(scenario())


def test_a_postgres_that_is_not_there_is_named() -> None:
    pytest.importorskip("asyncpg")
    from orchard_cli.env.service.store.postgres import PostgresStore

    with pytest.raises(SandboxError) as caught:
        asyncio.run(PostgresStore.open("postgresql://orchard@127.0.0.1:1/none"))
    assert caught.value.fault.code == "infra.store"
