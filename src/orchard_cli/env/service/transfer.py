"""Files in and out of a sandbox piece by piece: never more than a few pieces in memory, whatever the size.

Everything happens inside the sandbox, so that a path means there what it means there.
"""

import asyncio
import hashlib
import secrets
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from typing import Protocol, TypeVar

from ...errors import SandboxError
from ..sandbox import Sandbox
from .problem import refused

T = TypeVar("T")
PIECE = 4 << 20
BLOCK = 1 << 20  # of a stream
STEP_S = 120.0
SIZE = '[ -f "$1" ] || { [ -e "$1" ] && exit 4; exit 3; }; stat -Lc "%s %y %i" -- "$1"'
BEGIN = 'mkdir -p -- "$(dirname -- "$1")" && [ ! -d "$1" ] && umask 077 && set -C && : >"$2"'
END = 'chmod -- "$3" "$2" && mv -fT -- "$2" "$1"'


class Chore(Protocol):
    """Does it in a thread, of `pool` where one is given."""

    def __call__(self, work: Callable[[], T], pool: Executor | None = None) -> Awaitable[T]: ...


async def _step(chore: Chore, box: Sandbox, script: str, *words: str) -> bytes:
    argv = ["/bin/sh", "-c", script, "sh", *words]
    result = await chore(lambda: box.exec(argv, timeout_s=STEP_S))
    if result.ok:
        return result.stdout
    if result.exit_code == 3:
        raise refused(f"no such file in the sandbox: {words[0]}", "client.no_such_file")
    if result.exit_code == 4:
        raise refused(f"{words[0]} is not a regular file", "client.not_a_file")
    said = result.stderr.decode(errors="replace").strip() or result.reason
    full = "No space left" in said or result.reason == "disk_quota"
    raise SandboxError(
        f"{shlex.quote(words[0])}: {said[:500]}",
        code="workload.disk_quota" if full else "client.file_error",
        attributable="model" if full else "client",
        effect="none",
        retry="never",
    )


async def download(chore: Chore, box: Sandbox, path: str) -> tuple[int, AsyncIterator[bytes]]:
    """Size and content. A file that changes meanwhile breaks the connection off: half a file is never taken for one."""
    path = _inside(path)
    seen = await _step(chore, box, SIZE, path)
    size = int(seen.split()[0])

    async def pieces() -> AsyncIterator[bytes]:
        sent = 0
        async for piece in blocks(chore, box.fetch(path)):
            sent += len(piece)
            yield piece
        if sent != size or await _step(chore, box, SIZE, path) != seen:
            raise SandboxError(f"{path} changed while it was read", code="client.file_changed", attributable="client")

    return size, pieces()


SHUTTING: set[asyncio.Task[None]] = set()  # the loop itself holds tasks weakly


async def blocks(chore: Chore, pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Pieces of a blocking stream, joined; the next block is read while one is on its way."""
    ahead = asyncio.ensure_future(chore(lambda: joined(pieces)))
    try:
        while block := await ahead:
            ahead = asyncio.ensure_future(chore(lambda: joined(pieces)))
            yield block
    finally:
        shutting = asyncio.ensure_future(_shut(chore, ahead, pieces))
        SHUTTING.add(shutting)
        shutting.add_done_callback(SHUTTING.discard)


async def _shut(chore: Chore, ahead: "asyncio.Future[bytes]", pieces: Iterator[bytes]) -> None:
    """Whoever leaves in the middle leaves a connection to the agent behind: closed as soon as nobody reads from it."""
    await asyncio.wait([ahead])
    if not ahead.cancelled():
        ahead.exception()  # told already, or of interest to nobody any more
    if isinstance(pieces, Generator):
        with suppress(RuntimeError):  # the service has stopped, and with it what it held
            await chore(pieces.close)


def joined(pieces: Iterator[bytes]) -> bytes:
    """The next of them, together at least `BLOCK` bytes if there are as many: each costs a change of threads."""
    parts, size = [], 0
    for piece in pieces:
        parts.append(piece)
        size += len(piece)
        if size >= BLOCK:
            break
    return b"".join(parts)


async def upload(
    chore: Chore, pool: Executor, box: Sandbox, path: str, mode: int, chunks: AsyncIterator[bytes], sha256: str = ""
) -> tuple[int, str]:
    """Bytes and hash of what was written: all of it under its name, or nothing. Raises `client.hash_mismatch`.

    `pool` has the thread that waits for `chunks`, which may be long in coming.
    """
    path = _inside(path)
    folder, _, name = path.rpartition("/")
    scratch = f"{folder}/.{secrets.token_hex(8)}.orchard"
    digest = hashlib.sha256()
    if not name or name in (".", ".."):
        raise refused(f"{path} is a directory", "client.is_a_directory")
    await _step(chore, box, BEGIN, path, scratch)
    try:
        size = await chore(partial(_store, box, scratch, pulled(chunks, asyncio.get_running_loop()), digest), pool)
        if sha256 and digest.hexdigest() != sha256.lower():
            raise refused("the bytes that came do not have this hash", "client.hash_mismatch", retry="same")
        await _step(chore, box, END, path, scratch, f"{mode:o}")
    except BaseException:
        await chore(lambda: box.exec(["/bin/rm", "-f", "--", scratch]))
        raise
    return size, digest.hexdigest()


def _store(box: Sandbox, path: str, came: Iterator[bytes], digest: "hashlib._Hash") -> int:
    size = 0

    def hashed() -> Iterator[bytes]:
        nonlocal size
        for block in came:
            digest.update(block)
            size += len(block)
            yield block

    box.store(path, hashed())
    return size


def pulled(chunks: AsyncIterator[bytes], loop: asyncio.AbstractEventLoop) -> Iterator[bytes]:
    """For a thread: at most one block is taken from the connection before it is asked for."""
    whole = gathered(chunks, BLOCK)

    async def following() -> bytes:
        return await anext(whole, b"")

    ahead = asyncio.run_coroutine_threadsafe(following(), loop)
    try:
        while block := ahead.result():
            ahead = asyncio.run_coroutine_threadsafe(following(), loop)
            yield block
    finally:
        ahead.cancel()


async def gathered(chunks: AsyncIterator[bytes], least: int) -> AsyncIterator[bytes]:
    parts, size = [], 0
    async for chunk in chunks:
        parts.append(chunk)
        size += len(chunk)
        if size >= least:
            yield b"".join(parts)
            parts, size = [], 0
    if parts:
        yield b"".join(parts)


def _inside(path: str) -> str:
    if not path or "\0" in path:
        raise refused("`path` is needed, without NUL", "client.bad_request")
    return path if path.startswith("/") else f"./{path}"
