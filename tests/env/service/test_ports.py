"""A port inside, carried by a WebSocket."""

import asyncio
import socket
from types import SimpleNamespace
from typing import Any

from starlette.websockets import WebSocketDisconnect

from orchard_cli.env.service.keys import ANYONE
from orchard_cli.env.service.routes.ports import tunnel


def test_who_takes_no_more_is_still_heard_to_the_end() -> None:
    """It answers and closes while the client still sends: the answer comes whole."""
    ours, theirs = socket.socketpair()
    said = bytes(100_000)
    theirs.sendall(said)
    theirs.close()
    heard: list[bytes] = []

    class Client:
        path_params = {"id": "a", "port": 80}
        told = 0

        def __init__(self) -> None:
            self.refused, self.ended = asyncio.Event(), asyncio.Event()

        async def accept(self) -> None: ...

        async def send_text(self, _: str) -> None: ...

        async def close(self, *_: object) -> None:
            self.ended.set()

        async def receive_bytes(self) -> bytes:
            self.told += 1
            if self.told == 1:
                return b"more"
            self.refused.set()
            await self.ended.wait()
            raise WebSocketDisconnect

        async def send_bytes(self, data: bytes) -> None:
            heard.append(data)
            await asyncio.wait_for(self.refused.wait(), 10)

    async def main() -> None:
        async def locate(*_: object) -> object:
            return SimpleNamespace(open_box=lambda: (SimpleNamespace(connect=lambda _: ours), None), touch=lambda: None)

        async def chore(work: Any) -> Any:
            return work()

        service: Any = SimpleNamespace(fleet=SimpleNamespace(locate=locate, chore=chore))
        client: Any = Client()
        await asyncio.wait_for(tunnel(service, ANYONE, client), 30)

    asyncio.run(main())
    assert b"".join(heard) == said
