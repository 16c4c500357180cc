"""Names that are slow to look up."""

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from orchard_cli.env.network.addresses import Address
from orchard_cli.env.network.egress import LOOKUPS, Egress
from orchard_cli.env.network.log import DecisionLog
from orchard_cli.env.network.meter import Caps
from orchard_cli.env.network.refused import Refused
from orchard_cli.env.network.rules import Policy, ask


def test_a_sandbox_never_holds_more_threads_than_its_share() -> None:
    """A name server that keeps silent holds a thread for longer than anybody inside is kept waiting."""
    answered, held = threading.Event(), list[str]()

    async def main() -> list[Any]:
        loop, pool = asyncio.get_running_loop(), ThreadPoolExecutor(4 * LOOKUPS)

        def silent(host: str) -> list[Address]:
            answered.wait(60)
            return []

        async def resolve(host: str, port: int) -> Sequence[Address]:
            held.append(host)
            return await loop.run_in_executor(pool, silent, host)

        egress: Any = Egress("a", Policy("open"), DecisionLog(), Caps(connect_s=0.05), resolve)
        asked = [ask("CONNECT", f"name{number}.example:443", None) for number in range(3 * LOOKUPS)]
        told = []
        for first in range(0, len(asked), LOOKUPS):
            wave = (egress._connect(None, each) for each in asked[first : first + LOOKUPS])
            told += await asyncio.gather(*wave, return_exceptions=True)
        many = len(held)
        answered.set()
        pool.shutdown()
        assert many == LOOKUPS
        async with asyncio.timeout(20):  # each place is given back
            for _ in range(LOOKUPS):
                await egress._lookups.acquire()
        return told

    told = asyncio.run(main())
    assert all(isinstance(error, Refused) and error.status == 504 for error in told)
