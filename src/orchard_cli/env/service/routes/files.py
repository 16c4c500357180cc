"""Files, directories, uploaded trees, patch, diff."""

import base64
import hashlib
import os
from collections.abc import AsyncIterator

from starlette.responses import Response

from ....errors import SandboxError
from ...sandbox import Sandbox
from ..bodies import FileView, Names
from ..call import Call, Operation, json, stream
from ..problem import refused, sayable
from ..transfer import PIECE, download, upload

MOST = 64 << 30  # bytes of one file
BINARY = "application/octet-stream"


async def _box(call: Call) -> Sandbox:
    live = await call.service.fleet.locate(call.path("id"), call.who)
    box, _ = live.open_box()
    live.touch()
    return box


async def get(call: Call) -> Response:
    box, path = await _box(call), call.query("path")
    chore = call.service.fleet.chore
    try:
        data = await chore(lambda: box.read(path, max_bytes=PIECE))
        return Response(data, media_type=BINARY)
    except SandboxError as error:
        if error.fault.code not in ("client.too_large", "workload.too_large"):
            raise
    size, pieces = await download(chore, box, path)
    return stream(pieces, BINARY, {"Content-Length": str(size)})


async def put(call: Call) -> Response:
    box, path, wanted = await _box(call), call.query("path"), call.header("x-content-sha256")
    mode = _mode(call.query("mode", "644"))
    chore, chunks = call.service.fleet.chore, call.chunks(MOST)
    parts, size = [], 0
    async for chunk in chunks:
        parts.append(chunk)
        size += len(chunk)
        if size > PIECE:
            size, digest = await upload(chore, call.service.fleet.inputs, box, path, mode, _rest(parts, chunks), wanted)
            return json(FileView(path=sayable(path), bytes=size, sha256=digest), 201)
    data = b"".join(parts)
    digest = hashlib.sha256(data).hexdigest()
    if wanted and digest != wanted.lower():
        raise refused("the bytes that came do not have this hash", "client.hash_mismatch", retry="same")
    await chore(lambda: box.write(path, data, mode=mode))
    return json(FileView(path=sayable(path), bytes=len(data), sha256=digest), 201)


async def _rest(parts: list[bytes], chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    while parts:
        yield parts.pop(0)
    async for chunk in chunks:
        yield chunk


def _mode(text: str) -> int:
    if not text or set(text) - set("01234567") or len(text) > 4:
        raise refused("`mode` is octal, such as 644", "client.bad_request")
    return int(text, 8)


async def names(call: Call) -> Response:
    box, path = await _box(call), call.query("path", ".")
    found = await call.service.fleet.chore(lambda: box.list(path))
    raw = b"\0".join(os.fsencode(name) for name in found)
    try:
        raw.decode()
    except UnicodeDecodeError:
        return json(Names(names=(), raw=base64.b64encode(raw).decode()))
    return json(Names(names=found))


async def diff(call: Call) -> Response:
    box = await _box(call)
    text = await call.service.fleet.chore(box.diff)
    return Response(os.fsencode(text), media_type="text/x-diff")


async def patch(call: Call) -> Response:
    box = await _box(call)
    raw = await call.raw()

    async def act() -> dict[str, bool]:
        await call.service.fleet.chore(lambda: box.patch(os.fsdecode(raw)))
        return {"applied": True}

    return json(await call.once(raw, act))


async def has_tree(call: Call) -> Response:
    found = call.service.trees.find(call.who.tenant, call.path("hash"))
    if found is None:
        raise refused("no such tree was uploaded", "client.no_such_tree")
    return json({"hash": call.path("hash")})


async def put_tree(call: Call) -> Response:
    trees = call.service.trees
    await trees.receive(call.who.tenant, call.path("hash"), call.chunks(MOST))
    return json({"hash": call.path("hash")}, 201)


BASE = "/v1/sandboxes/{id}"
OPERATIONS = (
    Operation("GET", f"{BASE}/files", "use", get, "Read a file", query=("path",), media=BINARY),
    Operation("PUT", f"{BASE}/files", "use", put, "Write a file", bytes, FileView, 201, ("path", "mode"), takes=BINARY),
    Operation("GET", f"{BASE}/names", "use", names, "List a directory", None, Names, 200, ("path",)),
    Operation("GET", f"{BASE}/diff", "use", diff, "What changed under the work directory", media="text/x-diff"),
    Operation("POST", f"{BASE}/patch", "use", patch, "Apply a diff, whole or not at all", bytes, takes="text/x-diff"),
    Operation("GET", "/v1/trees/{hash}", "use", has_tree, "Whether a tree is here"),
    Operation(
        "PUT", "/v1/trees/{hash}", "create", put_tree, "Upload a tree", bytes, status=201, takes="application/x-tar"
    ),
)
