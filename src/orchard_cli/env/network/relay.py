"""Passing bytes and messages on between a sandbox and where it may go."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import h11

from .lookup import Streams
from .refused import Refused
from .wire import PIECE, Gone, Headers, Wire, passed_on

INTERIM_ANSWERS = 10
NO_HTTP = "the other side does not answer with HTTP"
Change = Callable[[bytes], bytes]


def same(data: bytes) -> bytes:
    return data


async def tunnel(
    inner: Streams,
    outer: Streams,
    count: Callable[[int, int], None],
    idle_s: float,
) -> None:
    """Bytes both ways until both ends are done. `count(down, up)`. Raises `TimeoutError` when nothing moves."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(idle_s) as idle:

        async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter, up: bool) -> None:
            while data := await source.read(PIECE):
                count(0 if up else len(data), len(data) if up else 0)
                target.write(data)
                await target.drain()
                idle.reschedule(loop.time() + idle_s)
            with suppress(OSError):
                target.write_eof()

        await together(pump(inner[0], outer[1], up=True), pump(outer[0], inner[1], up=False))


async def together(*work: Awaitable[None]) -> None:
    """All to their end; the first that fails ends the others."""
    tasks = [asyncio.ensure_future(item) for item in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def send_request(inner: Wire, head: h11.Request, outer: Wire, idle_s: float) -> None:
    """The head as given, the body as it comes. Raises `Gone` when the sandbox stops in the middle."""
    await outer.send(head)
    if inner.http.they_are_waiting_for_100_continue:
        await inner.send(h11.InformationalResponse(status_code=100, headers=[]))
    while True:
        async with asyncio.timeout(idle_s):
            event = await inner.event()
            if isinstance(event, h11.Data):
                await outer.send(h11.Data(data=bytes(event.data)))
            elif isinstance(event, h11.EndOfMessage):
                await outer.send(h11.EndOfMessage())  # without trailers
                return
            else:
                raise Gone


async def send_response(outer: Wire, inner: Wire, idle_s: float, change: Change, last: Callable[[], bytes]) -> int:
    """The answer, piece by piece as it comes, each through `change`; `last()` gives what that held back.

    Returns the status. Raises `Refused` when the other side speaks no HTTP, before anything was passed on.
    """
    event = await _final(outer, idle_s)
    headers = [(key, change(value) + last()) for key, value in passed_on(event.headers)]
    await inner.send(h11.Response(status_code=event.status_code, headers=headers))
    while True:
        async with asyncio.timeout(idle_s):
            body = await outer.event()
            if isinstance(body, h11.Data):
                await _send_data(inner, change(bytes(body.data)))
            elif isinstance(body, h11.EndOfMessage):
                await _send_data(inner, last())
                await inner.send(h11.EndOfMessage())
                return event.status_code
            else:
                raise Gone


async def _final(outer: Wire, idle_s: float) -> h11.Response:
    """The head of the answer, after a few that only say that it will come."""
    try:
        for _ in range(INTERIM_ANSWERS):
            async with asyncio.timeout(idle_s):
                event = await outer.event()
            if isinstance(event, h11.Response):
                return event
            if not isinstance(event, h11.InformationalResponse) or event.status_code == 101:
                break
    except (h11.RemoteProtocolError, Gone, OSError) as error:
        raise Refused(502, NO_HTTP, verdict="failed") from error
    raise Refused(502, NO_HTTP, verdict="failed")


async def _send_data(inner: Wire, data: bytes) -> None:
    if data:
        await inner.send(h11.Data(data=data))


async def unless_gone(inner: Wire, work: Awaitable[int]) -> int:
    """`work`, given up when the sandbox closes its end meanwhile: nobody would read the answer, and it may cost."""
    main, look = asyncio.ensure_future(work), asyncio.ensure_future(inner.more())
    try:
        await asyncio.wait({main, look}, return_when=asyncio.FIRST_COMPLETED)
        if not main.done() and look.exception() is None and look.result() is False:
            raise Gone
        return await main
    finally:
        for task in (main, look):
            task.cancel()
        await asyncio.gather(main, look, return_exceptions=True)


def request_head(method: bytes, target: bytes, headers: Headers, chunks: bool) -> h11.Request:
    framed = [*headers, (b"transfer-encoding", b"chunked")] if chunks else headers
    return h11.Request(method=method, target=target, headers=framed)
