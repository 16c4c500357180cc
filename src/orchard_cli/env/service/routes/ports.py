"""A TCP connection to a loopback port inside a sandbox, carried by a WebSocket: binary messages, nothing added."""

import asyncio
import socket
from contextlib import suppress

from starlette.websockets import WebSocket, WebSocketDisconnect

from ....errors import SandboxError
from ..keys import Principal
from ..problem import status_of
from ..service import Service

PIECE = 1 << 16
REFUSED = 4000  # close codes: 4000 + the status that a plain request would have got


async def tunnel(service: Service, who: Principal, websocket: WebSocket) -> None:
    """Until either side ends; then the other is ended too."""
    try:
        live = await service.fleet.locate(websocket.path_params["id"], who)
        box, _ = live.open_box()
        port = int(websocket.path_params["port"])
        inside = await service.fleet.chore(lambda: box.connect(port))
    except SandboxError as error:
        await websocket.accept()
        await websocket.close(REFUSED + status_of(error), f"{error.fault.code} {error}"[:120])
        return
    await websocket.accept()
    await websocket.send_text("open")
    inside.setblocking(False)
    live.touch()
    try:
        outward = asyncio.create_task(_outward(websocket, inside))
        inward = asyncio.create_task(_inward(websocket, inside))
        await asyncio.wait([outward, inward], return_when=asyncio.FIRST_COMPLETED)
        for task in (outward, inward):
            task.cancel()
        await asyncio.gather(outward, inward, return_exceptions=True)
    finally:
        inside.close()
        live.touch()
        with suppress(RuntimeError, WebSocketDisconnect):
            await websocket.close()


async def _outward(websocket: WebSocket, inside: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    while data := await loop.sock_recv(inside, PIECE):
        await websocket.send_bytes(data)


async def _inward(websocket: WebSocket, inside: socket.socket) -> None:
    """An empty message says that no more will come from outside, as a half-closed connection does."""
    loop = asyncio.get_running_loop()
    while True:
        data = await websocket.receive_bytes()
        with suppress(OSError):  # it takes no more, but what it has said is still on its way out
            if data:
                await loop.sock_sendall(inside, data)
            else:
                inside.shutdown(socket.SHUT_WR)
