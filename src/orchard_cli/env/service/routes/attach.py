"""A command over a WebSocket: what it says goes out as it says it, keys, sizes and signals come in.

The messages are those of the agent (`agent/websocket.py`). Leaving does not end the command, unless `kill_on_detach=1`.
"""

import asyncio
from base64 import b64decode
from contextlib import suppress
from functools import partial
from typing import Annotated

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect

from ....errors import SandboxError
from ...execution import Execution as Running
from ..bodies import Side
from ..command import Execution
from ..keys import Principal
from ..problem import refused, status_of
from ..service import Service
from .ports import REFUSED

CHANNELS = {"out": b"\1", "err": b"\2"}
AHEAD = 64  # messages of input that wait for the command
FINISHING: set[asyncio.Task[None]] = set()  # the loop itself holds tasks weakly
POLICY = 1008  # close code: a message that means nothing here


async def attach(service: Service, who: Principal, websocket: WebSocket) -> None:
    """Until the command ends or the client leaves."""
    try:
        live = await service.fleet.locate(websocket.path_params["id"], who)
        if live.execs is None:
            raise refused("it has run no command yet", "client.no_such_exec")
        execution = live.execs.find(websocket.path_params["exec"])
        after = websocket.query_params.get("after", "0")
        if not after.isdecimal():
            raise refused("`after` is no number", "client.bad_request")
        handle = await execution.begun()
    except SandboxError as error:
        await websocket.accept()
        await websocket.close(REFUSED + status_of(error), f"{error.fault.code} {error}"[:120])
        return
    await websocket.accept()
    live.touch()
    said = asyncio.create_task(_outward(websocket, execution, int(after)))
    inward = Inward(service, websocket, handle)
    heard = asyncio.create_task(inward.run())
    try:
        await asyncio.wait([said, heard], return_when=asyncio.FIRST_COMPLETED)
    finally:
        # A client that has left is also told by what cannot be sent to it any more.
        left = not said.done() or said.cancelled() or said.exception() is not None
        for task in (said, heard):
            task.cancel()
        await asyncio.gather(said, heard, return_exceptions=True)
        live.touch()
        if left and handle and websocket.query_params.get("kill_on_detach") == "1":
            await service.fleet.chore(handle.cancel)
    with suppress(RuntimeError, WebSocketDisconnect):
        await websocket.close(POLICY if left else 1000, inward.wrong[:120] if left else None)


async def _outward(websocket: WebSocket, execution: Execution, after: int) -> None:
    async for frame in execution.journal.follow(after):
        if frame["type"] in CHANNELS:
            data = frame["text"].encode() if "text" in frame else b64decode(frame["b64"])
            await websocket.send_bytes(CHANNELS[frame["type"]] + frame["offset"].to_bytes(8, "big") + data)
        elif frame["type"] != "ping":
            await websocket.send_text(msgspec.json.encode(frame).decode())


class Said(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A message of text."""

    resize: tuple[Side, Side] | None = None
    signal: Annotated[int, msgspec.Meta(ge=1, le=64)] | None = None
    eof: bool = False
    cancel: bool = False


class Inward:
    """What the client says. Input waits for a command that does not read; signals pass it by."""

    def __init__(self, service: Service, websocket: WebSocket, handle: Running | None):
        self._chore, self._inputs = service.fleet.chore, service.fleet.inputs
        self._websocket, self._handle = websocket, handle
        self._input: asyncio.Queue[bytes] = asyncio.Queue(AHEAD)
        self.wrong = ""  # what was said that means nothing

    async def run(self) -> None:
        """Returns when the client has left or said something that means nothing."""
        feeding = asyncio.create_task(self._feed())
        try:
            with suppress(WebSocketDisconnect):
                while (message := await self._websocket.receive())["type"] == "websocket.receive":
                    data = message.get("bytes")
                    await (self._control(message["text"]) if data is None else self._data(data))
        except (SandboxError, ValueError) as error:
            self.wrong = str(error)
        finally:
            finishing = asyncio.create_task(self._finish(feeding))
            FINISHING.add(finishing)
            finishing.add_done_callback(FINISHING.discard)

    async def _finish(self, feeding: "asyncio.Task[None]") -> None:
        """What came before the client left is still the command's."""
        await self._input.join()
        feeding.cancel()

    async def _data(self, data: bytes) -> None:
        if data[:1] != b"\0" or self._handle is None:
            raise ValueError("no input is taken")
        if len(data) > 1:
            await self._input.put(data[1:])

    async def _control(self, text: str) -> None:
        said = msgspec.json.decode(text, type=Said)
        handle = self._handle
        if handle is None:
            raise ValueError("this command has ended")
        if said.resize:
            rows, cols = said.resize
            await self._chore(lambda: handle.resize(rows, cols))
        if number := said.signal:
            await self._chore(lambda: handle.signal(number))
        if said.eof:
            await self._input.put(b"")
        if said.cancel:
            await self._chore(handle.cancel)

    async def _feed(self) -> None:
        """In order; a command that takes no more input is heard all the same."""
        handle = self._handle
        while handle is not None:
            data = await self._input.get()
            with suppress(SandboxError):
                await self._chore(partial(handle.write, data) if data else handle.close_stdin, self._inputs)
            self._input.task_done()
