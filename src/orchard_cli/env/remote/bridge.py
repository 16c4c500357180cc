"""Between iterators of threads and those of an event loop: neither side ever holds more than a little."""

import asyncio
import threading
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Executor
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")
AHEAD, LOOK_S = 256, 1.0
Call = Callable[[Callable[[], R]], Awaitable[R]]


async def awaited(pool: Executor, iterate: Callable[[], Iterable[T]]) -> AsyncIterator[T]:
    """What `iterate` gives on a thread of `pool`. Leaving early ends the reading: here at once, there with what comes
    next, which may be long in coming."""
    loop, items = asyncio.get_running_loop(), asyncio.Queue[Any]()
    room, left, end = threading.Semaphore(AHEAD), threading.Event(), object()

    def tell(item: object) -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(items.put_nowait, item)

    def pump() -> None:
        last: object = end
        try:
            for item in iterate():
                while not room.acquire(timeout=LOOK_S) and not loop.is_closed():
                    pass
                if left.is_set() or loop.is_closed():
                    return
                tell(item)
        except Exception as error:  # noqa: BLE001 - raised again where it is awaited
            last = error
        tell(last)

    pumping = pool.submit(pump)
    try:
        while (item := await items.get()) is not end:
            if isinstance(item, Exception):
                raise item
            room.release()
            yield item
    finally:
        left.set()
        room.release()
        pumping.cancel()


async def handed(call: Call[R], items: Iterable[T] | AsyncIterable[T], send: Callable[[Iterator[T]], R]) -> R:
    """`send` on a thread, with the items. Cancelled, it breaks off there, too: a part is never taken for the whole."""
    loop, left = asyncio.get_running_loop(), threading.Event()
    try:
        return await call(lambda: send(_whole(drawn(items, loop), left)))
    finally:
        left.set()


def _whole(items: Iterator[T], left: threading.Event) -> Iterator[T]:
    for item in items:
        if left.is_set():
            break
        yield item
    if left.is_set():
        raise CancelledError


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
