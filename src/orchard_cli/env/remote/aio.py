"""The same client for asyncio: each call runs on a thread of its own pool, so there is one core and one behaviour."""

import asyncio
import socket
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from ..execution import Event
from ..sandbox import ExecResult, Spec
from .aio_execution import AsyncAttachment, AsyncExecution
from .bridge import awaited, handed
from .env import RemoteEnv
from .sandbox import RemoteSandbox

T = TypeVar("T")
THREADS = 256
Pieces = Iterable[bytes] | AsyncIterable[bytes]


class AsyncEnv:
    """`async with AsyncEnv(url, key) as env: box = await env.open(Spec())`."""

    def __init__(self, url: str, key: str = "", **options: Any):
        self._make = lambda: RemoteEnv(url, key, **options)
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="orchard-env")
        # of their own: a call may wait for what a stream brings, and whoever follows one calls
        self.streams = ThreadPoolExecutor(THREADS, thread_name_prefix="orchard-stream")
        self._env: RemoteEnv | None = None

    async def call(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    async def open(self, spec: Spec) -> "AsyncSandbox":
        assert self._env is not None, "use `async with`"
        env = self._env
        return AsyncSandbox(self, await self.call(lambda: env.open(spec)))

    async def __aenter__(self) -> "AsyncEnv":
        self._env = await self.call(self._make)
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._env:
            await self.call(self._env.close)
        self._pool.shutdown(wait=False)
        self.streams.shutdown(wait=False)


class AsyncSandbox:
    """What `RemoteSandbox` offers, awaited."""

    def __init__(self, env: AsyncEnv, box: RemoteSandbox):
        self._env, self._box = env, box
        self.id, self.workdir = box.id, box.workdir

    async def exec(self, command: str | Sequence[str], **options: Any) -> ExecResult:
        return await self._env.call(lambda: self._box.exec(command, **options))

    async def start(self, command: str | Sequence[str], **options: Any) -> AsyncExecution:
        """One that goes on: to be followed, fed, signalled, waited for. Options as those of `RemoteSandbox.start`."""
        return AsyncExecution(self._env, await self._env.call(lambda: self._box.start(command, **options)))

    async def executions(self) -> tuple[AsyncExecution, ...]:
        return tuple(AsyncExecution(self._env, each) for each in await self._env.call(self._box.executions))

    async def attach(self, execution: AsyncExecution, **options: Any) -> AsyncAttachment:
        """One connection to a command, for terminals. Options as those of `RemoteSandbox.attach`."""
        plain = execution.plain
        return AsyncAttachment(self._env, await self._env.call(lambda: self._box.attach(plain, **options)))

    async def stream(self, command: str | Sequence[str], **options: Any) -> AsyncIterator[Event]:
        """Start, and its events as they come. Leaving early ends the reading, not the command."""
        async for event in awaited(self._env.streams, lambda: self._box.start(command, **options).events()):
            yield event

    def fetch(self, path: str) -> AsyncIterator[bytes]:
        """A file of any size, in pieces."""
        return awaited(self._env.streams, lambda: self._box.fetch(path))

    async def store(self, path: str, pieces: Pieces, *, mode: int = 0o644) -> None:
        await handed(self._env.call, pieces, lambda drawn: self._box.store(path, drawn, mode=mode))

    def pack(self, path: str = ".") -> AsyncIterator[bytes]:
        """A directory as a tar, in pieces."""
        return awaited(self._env.streams, lambda: self._box.pack(path))

    async def unpack(self, path: str, tar: Pieces) -> None:
        await handed(self._env.call, tar, lambda drawn: self._box.unpack(path, drawn))

    async def connect(self, port: int, *, timeout_s: float = 5.0) -> socket.socket:
        """See `Sandbox.connect`; `asyncio.open_connection(sock=…)` makes streams of it."""
        return await self._env.call(lambda: self._box.connect(port, timeout_s=timeout_s))

    async def read(self, path: str, *, max_bytes: int = 16_777_216) -> bytes:
        return await self._env.call(lambda: self._box.read(path, max_bytes=max_bytes))

    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        await self._env.call(lambda: self._box.write(path, data, mode=mode))

    async def download(self, path: str, target: Path | str) -> int:
        return await self._env.call(lambda: self._box.download(path, target))

    async def upload(self, source: Path | str, path: str, *, mode: int = 0o644) -> int:
        return await self._env.call(lambda: self._box.upload(source, path, mode=mode))

    async def list(self, path: str = ".") -> tuple[str, ...]:
        return await self._env.call(lambda: self._box.list(path))

    async def diff(self) -> str:
        return await self._env.call(self._box.diff)

    async def patch(self, diff: str) -> None:
        await self._env.call(lambda: self._box.patch(diff))

    async def fork(self, *, processes: bool = False) -> "AsyncSandbox":
        return AsyncSandbox(self._env, await self._env.call(lambda: self._box.fork(processes=processes)))

    async def close(self) -> None:
        await self._env.call(self._box.close)

    async def __aenter__(self) -> "AsyncSandbox":
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()
