"""Blocks of a stream on their way between a connection and a thread."""

import asyncio
from collections.abc import AsyncIterator

from orchard_cli.env.service.transfer import BLOCK, gathered, joined, pulled


async def _chunks(sizes: list[int]) -> AsyncIterator[bytes]:
    for number, size in enumerate(sizes):
        yield bytes([number]) * size


def test_small_pieces_are_joined_and_nothing_is_lost() -> None:
    pieces = iter([b"a" * (BLOCK // 2)] * 5)
    assert [len(joined(pieces)) for _ in range(4)] == [BLOCK, BLOCK, BLOCK // 2, 0]


def test_blocks_come_in_order_and_end() -> None:
    async def all_of(sizes: list[int]) -> list[bytes]:
        return [block async for block in gathered(_chunks(sizes), 10)]

    assert asyncio.run(all_of([6, 6, 0, 12, 1])) == [b"\0" * 6 + b"\1" * 6, b"\3" * 12, b"\4"]
    assert asyncio.run(all_of([])) == []


def test_a_thread_pulls_what_the_loop_receives() -> None:
    async def whole() -> bytes:
        blocks = pulled(_chunks([BLOCK, 3]), asyncio.get_running_loop())
        return await asyncio.to_thread(lambda: b"".join(blocks))

    assert asyncio.run(whole()) == b"\0" * BLOCK + b"\1" * 3
