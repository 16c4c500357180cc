"""The awaited client: what the blocking one does, without holding up its loop."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from orchard_cli.env.execution import Terminal
from orchard_cli.env.remote import AsyncEnv, AsyncSandbox
from orchard_cli.env.sandbox import Spec
from orchard_cli.errors import SandboxError

from ..service.conftest import Rest


async def whole(pieces: AsyncIterator[bytes]) -> bytes:
    return b"".join([piece async for piece in pieces])


async def slowly(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        await asyncio.sleep(0.01)
        yield piece


async def _commands(box: AsyncSandbox) -> None:
    run = await box.start("read line; echo got $line; read line; exit 7", stdin=None, spool_bytes=1000)
    await run.write(b"one\n")
    said = b""
    async for event in run.events():
        said += event.data
        if said == b"got one\n":
            break  # the command goes on
    assert [each.id for each in await box.executions()] == [run.id]
    await run.write(b"two\n")
    assert (await run.wait(30)).exit_code == 7
    fed = await box.start("cat", stdin=None)
    await fed.write(b"fed")
    await fed.close_stdin()
    assert (await fed.wait(30)).stdout == b"fed"
    assert await whole(run.spooled()) == b"got one\n"
    sleeping = await box.start("sleep 60")
    with pytest.raises(SandboxError, match="still running"):
        await sleeping.wait(0.1)
    await sleeping.cancel()
    assert (await sleeping.wait(30)).reason == "cancelled"


async def _terminal(box: AsyncSandbox) -> None:
    run = await box.start("stty size; read line; stty size", stdin=None, terminal=Terminal(10, 20))
    async with await box.attach(run) as wire:
        said = b""
        async for event in wire:
            said += event.data
            if said.endswith(b"10 20\r\n"):
                await wire.resize(30, 40)
                await wire.write(b"\n")
            if event.type == "exit":
                break
    assert said.endswith(b"30 40\r\n")


async def _files(box: AsyncSandbox) -> None:
    await box.store("d/f", slowly(b"a", b"b" * 100_000))
    await box.store("d/g", [b"plain"])
    assert await whole(box.fetch("d/f")) == b"a" + b"b" * 100_000
    await box.unpack("copy", box.pack("d"))
    assert await box.list("copy") == ("f", "g")
    with pytest.raises(SandboxError) as caught:
        await whole(box.fetch("none"))
    assert caught.value.fault.code == "client.no_such_file"


async def _port(box: AsyncSandbox) -> None:
    await box.start(
        'python3 -c \'import socket; s = socket.create_server(("127.0.0.1", 7001)); '
        "c = s.accept()[0]; c.sendall(c.recv(9).upper())'"
    )
    for _ in range(200):
        try:
            reader, writer = await asyncio.open_connection(sock=await box.connect(7001))
            break
        except SandboxError:
            await asyncio.sleep(0.05)
    writer.write(b"hello")
    assert await reader.read() == b"HELLO"
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize("what", [_commands, _terminal, _files, _port])
def test_each_part_of_a_sandbox_can_be_awaited(rest: Rest, what: object) -> None:
    async def main() -> None:
        async with AsyncEnv(rest.url, rest.key) as env, await env.open(Spec()) as box:
            ticks = 0

            async def tick() -> None:
                nonlocal ticks
                while True:
                    ticks += 1
                    await asyncio.sleep(0.001)

            ticking = asyncio.create_task(tick())
            await asyncio.wait_for(what(box), 60)  # type: ignore[operator]
            await asyncio.wait_for(box.exec("sleep 0.5"), 60)
            ticking.cancel()
            assert ticks > 10  # the loop went on

    asyncio.run(main())
