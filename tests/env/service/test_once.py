"""Exactly once, whatever order requests, repetitions and deaths come in."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchard_cli.env.service.journal import Journal
from orchard_cli.env.service.once import Once
from orchard_cli.env.service.problem import refused
from orchard_cli.env.service.store.sqlite import SqliteStore
from orchard_cli.env.service.store.store import Conflict, Kind, Record
from orchard_cli.errors import SandboxError


class Memory:
    """A store in a dict, for thousands of short histories."""

    def __init__(self) -> None:
        self.records: dict[tuple[str, str], Record] = {}

    async def get(self, kind: Kind, id: str) -> Record | None:
        await asyncio.sleep(0)
        return self.records.get((kind, id))

    async def put(self, record: Record, *, expect: int | None) -> int:
        await asyncio.sleep(0)
        held = self.records.get((record.kind, record.id))
        version = held.version if held else 0
        if expect is not None and version != expect:
            raise Conflict
        new = Record(record.kind, record.id, record.tenant, record.body, record.labels, record.expires, version + 1)
        self.records[record.kind, record.id] = new
        return version + 1

    async def delete(self, kind: Kind, id: str, *, expect: int | None = None) -> bool:
        await asyncio.sleep(0)
        return self.records.pop((kind, id), None) is not None


# (key, body, server, yields before the effect)
SENT = st.tuples(st.sampled_from("ab"), st.sampled_from("xy"), st.integers(0, 1), st.integers(0, 3))


@settings(max_examples=200, deadline=None)
@given(st.lists(SENT, max_size=12))
def test_any_interleaving_runs_each_key_once(sent: list[tuple[str, str, int, int]]) -> None:
    done: list[str] = []

    async def main() -> list[Any]:
        store: Any = Memory()
        servers = [Once(store, b"s"), Once(store, b"s")]

        async def one(key: str, body: str, server: int, yields: int) -> Any:
            async def act() -> dict[str, Any]:
                for _ in range(yields):
                    await asyncio.sleep(0)
                done.append(key)
                return {"by": body}

            once = servers[server]
            return await once.run("t", key, once.digest(body.encode()), act)

        return await asyncio.gather(*(one(*request) for request in sent), return_exceptions=True)

    answers = asyncio.run(main())
    assert sorted(done) == sorted({key for key, *_ in sent})
    for (key, body, *_), answer in zip(sent, answers, strict=True):
        first = next(b for k, b, *_ in sent if k == key)
        if isinstance(answer, dict):
            assert answer["by"] == body
        else:
            assert answer.fault.code in ("client.key_reused", "client.key_unfinished")
            assert answer.fault.code != "client.key_reused" or any(k == key and b != body for k, b, *_ in sent)
        assert first in "xy"


def test_what_began_before_a_death_is_unknown_and_not_run_again(tmp_path: Path) -> None:
    async def main() -> None:
        store = SqliteStore(tmp_path / "s.sqlite")
        first, second = Once(store, b"s"), Once(store, b"s")
        begun = asyncio.Event()

        async def forever() -> dict[str, Any]:
            begun.set()
            await asyncio.sleep(3600)
            return {}

        async def never() -> dict[str, Any]:
            raise AssertionError("run again")

        task = asyncio.create_task(first.run("t", "k", "d", forever))
        await begun.wait()
        with pytest.raises(SandboxError) as caught:
            await second.run("t", "k", "d", never)
        assert (caught.value.fault.code, caught.value.fault.effect) == ("client.key_unfinished", "unknown")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await store.close()

    asyncio.run(main())


def test_a_failure_without_effect_frees_the_key_and_one_with_is_repeated() -> None:
    async def main() -> None:
        store: Any = Memory()
        once, ran = Once(store, b"s"), []

        async def act(error: SandboxError | None) -> dict[str, Any]:
            ran.append(1)
            if error:
                raise error
            return {"fine": True}

        with pytest.raises(SandboxError):
            await once.run("t", "k", "d", lambda: act(refused("no", "capacity.quota")))
        assert await once.run("t", "k", "d", lambda: act(None)) == {"fine": True}
        hurt = SandboxError("half", code="infra.x", effect="unknown")
        for _ in range(2):
            with pytest.raises(SandboxError, match="half"):
                await once.run("t", "k2", "d", lambda: act(hurt))
        assert len(ran) == 3

    asyncio.run(main())


def test_what_was_done_is_told_as_done_though_its_end_cannot_be_written_down() -> None:
    class Full(Memory):
        async def put(self, record: Record, *, expect: int | None) -> int:
            if expect:
                raise SandboxError("no room", code="infra.disk_full", effect="none", retry="same")
            return await super().put(record, expect=expect)

    async def main() -> None:
        store: Any = Full()
        once = Once(store, b"s")

        async def act() -> dict[str, Any]:
            return {"fine": True}

        assert await once.run("t", "k", "d", act) == {"fine": True}
        with pytest.raises(SandboxError) as caught:
            await once.run("t", "k", "d", act)
        assert caught.value.fault.code == "client.key_unfinished"

    asyncio.run(main())


@given(st.binary(max_size=20), st.binary(max_size=20), st.binary(max_size=20))
def test_digests_tell_parts_apart(a: bytes, b: bytes, c: bytes) -> None:
    once = Once(Memory(), b"secret")  # type: ignore[arg-type]
    assert once.digest(a, b) == once.digest(a, b)
    if (a, b) != (a + b, c):
        assert once.digest(a, b) != once.digest(a + b, c)
    assert once.digest(a) != Once(Memory(), b"other").digest(a)  # type: ignore[arg-type]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 50), max_size=60), st.integers(0, 70), st.integers(20, 200))
def test_a_reader_of_a_journal_misses_nothing_unannounced(sizes: list[int], after: int, room: int) -> None:
    async def main() -> None:
        journal = Journal(max_bytes=room)
        for number, size in enumerate(sizes):
            journal.add({"type": "out", "number": number}, size)
        journal.close()
        seen = [frame async for frame in journal.follow(after)]
        missed = sum(frame["missed"] for frame in seen if frame["type"] == "gap")
        numbers = [frame["seq"] for frame in seen if frame["type"] != "gap"]
        assert numbers == list(range(after + missed + 1, len(sizes) + 1))
        assert [frame["type"] for frame in seen].count("gap") <= 1

    asyncio.run(main())


def test_readers_of_a_growing_journal_all_see_all() -> None:
    async def main() -> None:
        journal = Journal()

        async def reader() -> list[int]:
            return [frame["seq"] async for frame in journal.follow(0) if "seq" in frame]

        readers = [asyncio.create_task(reader()) for _ in range(5)]
        for number in range(100):
            journal.add({"type": "out"})
            if number % 7 == 0:
                await asyncio.sleep(0)
        journal.close()
        assert await asyncio.gather(*readers) == [list(range(1, 101))] * 5

    asyncio.run(main())


def test_a_paced_journal_drops_nothing_that_nobody_was_given() -> None:
    async def main() -> None:
        journal, entered = Journal(max_bytes=1000, paced=True), list[int]()
        for number in range(1, 51):
            journal.when_room(lambda number=number: entered.append(number))  # type: ignore[misc]
            journal.add({"type": "out"}, 100)
        assert len(entered) == 3  # whoever fills it was to wait from here on
        reading, seen = journal.follow(0), list[int]()
        async for frame in reading:
            seen.append(frame["seq"])
            if len(seen) == 50:
                break
        assert seen == list(range(1, 51)) and len(entered) > 40
        journal.look()  # it has had a reader just now
        assert journal.paced
        journal.let_go()
        assert entered == list(range(1, 51)) and not journal.full

    asyncio.run(main())


def test_a_temporary_folder_is_left_empty() -> None:
    """SQLite leaves nothing beside its file once it is closed."""
    with tempfile.TemporaryDirectory() as folder:

        async def main() -> None:
            store = SqliteStore(Path(folder) / "s.sqlite")
            await store.put(Record("once", "a", "t", {}), expect=0)
            await store.close()

        asyncio.run(main())
        assert [path.name for path in Path(folder).iterdir()] == ["s.sqlite"]
