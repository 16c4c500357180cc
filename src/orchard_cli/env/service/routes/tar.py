"""Whole directories as tar streams, both ways, piece by piece."""

import asyncio
from collections.abc import AsyncIterator

from starlette.responses import Response

from ..call import Call, Operation, json, stream
from ..problem import sayable
from ..transfer import blocks, pulled
from .files import BASE, MOST, _box

TAR = "application/x-tar"


async def get(call: Call) -> Response:
    box, path = await _box(call), call.query("path", ".")
    found = blocks(call.service.fleet.chore, box.pack(path))
    first = await anext(found, b"")  # what is refused is refused before an answer has begun

    async def told() -> AsyncIterator[bytes]:
        yield first
        async for block in found:
            yield block

    return stream(told(), TAR)


async def put(call: Call) -> Response:
    box, path = await _box(call), call.query("path", ".")
    pieces = pulled(call.chunks(MOST), asyncio.get_running_loop())
    fleet = call.service.fleet
    await fleet.chore(lambda: box.unpack(path, pieces), fleet.inputs)
    return json({"path": sayable(path)}, 201)


OPERATIONS = (
    Operation("GET", f"{BASE}/tar", "use", get, "A directory", query=("path",), media=TAR),
    Operation(
        "PUT", f"{BASE}/tar", "use", put, "Unpack into a directory", bytes, status=201, query=("path",), takes=TAR
    ),
)
