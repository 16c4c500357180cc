"""The awaited client leaves when it is told to, stands still for nobody, and takes no part for the whole."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from typing import TypeVar

import pytest

from orchard_cli.env.remote import AsyncEnv
from orchard_cli.env.remote.bridge import awaited, handed
from orchard_cli.env.sandbox import Spec

from ..service.conftest import Rest

T = TypeVar("T")


def test_leaving_does_not_wait_for_what_is_silent() -> None:
    over = threading.Event()

    def silent() -> Iterator[int]:
        yield 1
        over.wait(30)
        yield 2

    async def main() -> float:
        began = time.monotonic()
        with suppress(TimeoutError):
            async with asyncio.timeout(0.1):
                async for _ in awaited(pool, silent):
                    pass
        return time.monotonic() - began

    with ThreadPoolExecutor(1) as pool:
        try:
            assert asyncio.run(main()) < 5
        finally:
            over.set()


def test_what_is_cancelled_is_not_taken_for_whole() -> None:
    sent: list[list[int]] = []
    asked, go = threading.Event(), threading.Event()

    def send(items: Iterator[int]) -> None:
        found = []
        for item in items:
            found.append(item)
            asked.set()
            go.wait(30)
        sent.append(found)

    async def numbers() -> AsyncIterator[int]:
        for number in range(3):
            yield number

    async def main() -> None:
        async def call(work: Callable[[], T]) -> T:
            return await asyncio.get_running_loop().run_in_executor(pool, work)

        async with aclosing(numbers()) as source:  # type: ignore[type-var]
            sending = asyncio.create_task(handed(call, source, send))
            await asyncio.to_thread(asked.wait, 30)
            sending.cancel()
            with suppress(asyncio.CancelledError):
                await sending
        go.set()
        await asyncio.get_running_loop().run_in_executor(pool, int)

    with ThreadPoolExecutor(1) as pool:
        asyncio.run(main())
    assert sent == []


def test_as_many_copies_as_there_are_threads(rest: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchard_cli.env.remote.aio.THREADS", 2)

    async def main() -> None:
        async with AsyncEnv(rest.url, rest.key) as env, await env.open(Spec()) as box:
            await box.write("a", b"text")
            copies = (box.store(f"b{n}", box.fetch("a")) for n in range(4))
            await asyncio.wait_for(asyncio.gather(*copies), 30)
            assert await box.read("b3") == b"text"

            async def slow() -> AsyncIterator[bytes]:
                yield b"half"
                await asyncio.sleep(0.3)
                yield b"half"

            with suppress(TimeoutError):
                await asyncio.wait_for(box.store("b3", slow()), 0.1)
            await asyncio.sleep(0.6)
            assert await box.read("b3") == b"text"

    asyncio.run(main())
