"""A stream whose reader leaves in the middle is closed, and not left to be found."""

import asyncio
from collections.abc import Iterator

import pytest

from orchard_cli.env.service.transfer import BLOCK, blocks


@pytest.mark.parametrize("read", [0, 1, 9])
def test_it_is_closed_wherever_its_reader_stops(read: int) -> None:
    closed = []

    def pieces() -> Iterator[bytes]:
        try:
            for _ in range(5):
                yield b"x" * BLOCK
        finally:
            closed.append(True)

    async def main() -> None:
        stream = blocks(asyncio.to_thread, pieces())
        for _ in range(read):
            if not await anext(stream, b""):
                break
        if read:
            await stream.aclose()  # type: ignore[attr-defined]
        for _ in range(200):
            if closed:
                return
            await asyncio.sleep(0.01)

    asyncio.run(main())
    assert closed == ([True] if read else [])
