"""A command that goes on, and a connection to one, for asyncio."""

from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from typing import Literal, Protocol, TypeVar

from ..execution import Event, ExecResult
from .attachment import Attachment
from .bridge import awaited
from .execution import RemoteExecution

T = TypeVar("T")


class Threads(Protocol):
    @property
    def streams(self) -> Executor: ...

    async def call(self, work: Callable[[], T]) -> T: ...


class AsyncExecution:
    """What `RemoteExecution` offers, awaited."""

    def __init__(self, threads: Threads, execution: RemoteExecution):
        self._threads, self.plain = threads, execution
        self.id, self.key = execution.id, execution.key

    def events(self, after: int = 0) -> AsyncIterator[Event]:
        """As they come, up to `exit`. Leaving early ends the reading, not the command."""
        return awaited(self._threads.streams, lambda: self.plain.events(after))

    def spooled(self, stream: Literal["out", "err"] = "out") -> AsyncIterator[bytes]:
        return awaited(self._threads.streams, lambda: self.plain.spooled(stream))

    async def write(self, data: bytes) -> None:
        await self._threads.call(lambda: self.plain.write(data))

    async def close_stdin(self) -> None:
        await self._threads.call(self.plain.close_stdin)

    async def signal(self, number: int) -> None:
        await self._threads.call(lambda: self.plain.signal(number))

    async def resize(self, rows: int, cols: int) -> None:
        await self._threads.call(lambda: self.plain.resize(rows, cols))

    async def cancel(self) -> None:
        await self._threads.call(self.plain.cancel)

    async def wait(self, timeout_s: float | None = None) -> ExecResult:
        return await self._threads.call(lambda: self.plain.wait(timeout_s))


class AsyncAttachment:
    """What `Attachment` offers, awaited: `async with await box.attach(run) as wire: async for event in wire`."""

    def __init__(self, threads: Threads, attachment: Attachment):
        self._threads, self._plain = threads, attachment

    def __aiter__(self) -> AsyncIterator[Event]:
        return awaited(self._threads.streams, lambda: self._plain)

    async def write(self, data: bytes) -> None:
        await self._threads.call(lambda: self._plain.write(data))

    async def resize(self, rows: int, cols: int) -> None:
        await self._threads.call(lambda: self._plain.resize(rows, cols))

    async def signal(self, number: int) -> None:
        await self._threads.call(lambda: self._plain.signal(number))

    async def close_stdin(self) -> None:
        await self._threads.call(self._plain.close_stdin)

    async def cancel(self) -> None:
        await self._threads.call(self._plain.cancel)

    async def close(self) -> None:
        await self._threads.call(self._plain.close)

    async def __aenter__(self) -> "AsyncAttachment":
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()
