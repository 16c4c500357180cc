"""The same client for asyncio: each call runs on a thread of its own pool, so there is one core and one behaviour."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from ..execution import Event
from ..sandbox import ExecResult, Spec
from .env import RemoteEnv
from .sandbox import RemoteSandbox

T = TypeVar("T")
THREADS = 256


class AsyncEnv:
    """`async with AsyncEnv(url, key) as env: box = await env.open(Spec())`."""

    def __init__(self, url: str, key: str = "", **options: Any):
        self._make = lambda: RemoteEnv(url, key, **options)
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="orchard-env")
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


class AsyncSandbox:
    """What `RemoteSandbox` offers, awaited."""

    def __init__(self, env: AsyncEnv, box: RemoteSandbox):
        self._env, self._box = env, box
        self.id, self.workdir = box.id, box.workdir

    async def exec(self, command: str | Sequence[str], **options: Any) -> ExecResult:
        return await self._env.call(lambda: self._box.exec(command, **options))

    async def stream(self, command: str | Sequence[str], **options: Any) -> AsyncIterator[Event]:
        """Frames as they come. Leaving early ends the reading, not the command."""
        loop, frames = asyncio.get_running_loop(), asyncio.Queue[Any](256)
        left = threading.Event()

        def pump() -> None:
            end: object = None
            try:
                for frame in self._box.start(command, **options).events():
                    asyncio.run_coroutine_threadsafe(frames.put(frame), loop).result()
                    if left.is_set():
                        return
            except Exception as error:  # noqa: BLE001 - raised again where it is awaited
                end = error
            asyncio.run_coroutine_threadsafe(frames.put(end), loop)

        pumping = loop.run_in_executor(self._env._pool, pump)
        try:
            while (frame := await frames.get()) is not None:
                if isinstance(frame, Exception):
                    raise frame
                yield frame
        finally:
            left.set()
            while not pumping.done():  # make room for what it still holds
                if not frames.empty():
                    frames.get_nowait()
                await asyncio.sleep(0.001)

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
