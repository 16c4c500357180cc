"""Between iterators of threads and those of an event loop: neither side ever holds more than a little."""

import asyncio
import threading
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import Executor
from typing import Any, TypeVar

T = TypeVar("T")
AHEAD = 256


async def awaited(pool: Executor, iterate: Callable[[], Iterable[T]]) -> AsyncIterator[T]:
    """What `iterate` gives on a thread of `pool`. Leaving early ends the reading."""
    loop, items = asyncio.get_running_loop(), asyncio.Queue[Any](AHEAD)
    left, end = threading.Event(), object()

    def pump() -> None:
        last: object = end
        try:
            for item in iterate():
                asyncio.run_coroutine_threadsafe(items.put(item), loop).result()
                if left.is_set():
                    return
        except Exception as error:  # noqa: BLE001 - raised again where it is awaited
            last = error
        asyncio.run_coroutine_threadsafe(items.put(last), loop)

    pumping = loop.run_in_executor(pool, pump)
    try:
        while (item := await items.get()) is not end:
            if isinstance(item, Exception):
                raise item
            yield item
    finally:
        left.set()
        while not pumping.done():  # make room for what it still holds
            if not items.empty():
                items.get_nowait()
            await asyncio.sleep(0.001)


def drawn(items: Iterable[T] | AsyncIterable[T], loop: asyncio.AbstractEventLoop) -> Iterator[T]:
    """For a thread: the items of an iterator that lives on `loop`, or of a plain one."""
    if not isinstance(items, AsyncIterable):
        yield from items
        return
    source, end = aiter(items), object()

    async def following() -> Any:
        return await anext(source, end)

    while (item := asyncio.run_coroutine_threadsafe(following(), loop).result()) is not end:
        yield item
