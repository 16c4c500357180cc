"""Commands: run, wait, follow, cancel."""

from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from typing import Any

import msgspec
from starlette.responses import Response

from ....errors import SandboxError
from ...execution import Execution as Running
from ..bodies import ExecBody, ExecView, brief
from ..call import Call, Operation, json, stream
from ..command import Execution
from ..execs import Execs, new_id
from ..live import Live
from ..problem import refused


async def run(call: Call) -> Response:
    """Answered when the command ended or `wait` is over, whichever is first; its id serves to ask again."""
    live, execution = await begin(call, live=not call.wait_s)
    view = await execution.wait(call.wait_s)
    live.touch()
    return json(view, 200 if view.state != "running" else 202)


async def begin(call: Call, *, live: bool) -> tuple[Live, Execution]:
    body, raw = await call.read(ExecBody)
    held = await call.service.fleet.locate(call.path("id"), call.who)
    _, execs = held.open_box()
    held.touch()
    id = new_id()

    async def act() -> dict[str, Any]:
        counted(call, execs, body, id, live=live)
        return {"exec": id}

    answer = await call.once(raw, act, {"exec": id})
    try:
        return held, execs.find(answer["exec"])
    except SandboxError as error:
        if not held.adopted or error.fault.code != "client.no_such_exec":
            raise
        # Written down by a server that died before it began: if it did begin, the agent knows and refuses.
        return held, execs.start(body, answer["exec"], live=live)


def counted(call: Call, execs: Execs, body: ExecBody, id: str, *, live: bool = False) -> None:
    """Begin it within what its key may run at once. Raises `capacity.quota`."""
    busy, who = call.service.busy, call.who
    if busy[who.key] >= who.max_execs:
        raise refused(f"this key may run {who.max_execs} commands at once", "capacity.quota")
    execution = execs.start(body, id, live=live)
    busy[who.key] += 1
    execution.ended.add_done_callback(lambda _: busy.subtract([who.key]))


async def _find(call: Call) -> Execution:
    live = await call.service.fleet.locate(call.path("id"), call.who)
    if live.execs is None:
        raise refused("it has run no command yet", "client.no_such_exec")
    return live.execs.find(call.path("exec"))


async def look(call: Call) -> Response:
    execution = await _find(call)
    return json(await execution.wait(call.wait_s))


async def listing(call: Call) -> Response:
    live = await call.service.fleet.locate(call.path("id"), call.who)
    return json([brief(view) for view in live.execs.list()] if live.execs else [])


async def events(call: Call) -> Response:
    execution = await _find(call)
    after = int(call.number("after", 0, 1 << 62))
    return stream(_lines(execution, after), "application/x-ndjson")


async def _lines(execution: Execution, after: int) -> AsyncIterator[bytes]:
    async for frame in execution.journal.follow(after):
        yield msgspec.json.encode(frame) + b"\n"


async def spooled(call: Call) -> Response:
    """Everything that the command has said, where `spool_bytes` was given."""
    execution, name = await _find(call), call.query("stream", "out")
    if execution.spool is None or name not in ("out", "err"):
        raise refused("this command keeps no such output", "client.no_such_file", hint="begin it with `spool_bytes`")
    pieces = execution.spool.spooled("out" if name == "out" else "err")
    chore = call.service.fleet.chore
    first = await chore(lambda: next(pieces, b""))  # what is refused is refused before an answer has begun

    async def told() -> AsyncIterator[bytes]:
        piece = first
        while piece:
            yield piece
            piece = await chore(lambda: next(pieces, b""))

    return stream(told(), "application/octet-stream")


async def follow(call: Call) -> Response:
    """Run and follow in one request; the id is in the header, to go on from the last `seq` elsewhere."""
    _, execution = await begin(call, live=True)
    return stream(_lines(execution, 0), "application/x-ndjson", {"X-Orchard-Exec": execution.id})


async def _handle(call: Call) -> Running:
    """Of a command that can be talked to. Raises `client.not_live` for any other."""
    execution = await _find(call)
    handle = await execution.begun()
    if handle is None:
        raise refused(
            "this command has ended, or was begun with `wait`, which nothing can talk to",
            "client.not_live",
            hint="begin it without `wait`, or by `execs:stream`",
        )
    return handle


async def _tell(call: Call, raw: bytes, what: Callable[[], object], pool: Executor | None = None) -> Response:
    async def act() -> dict[str, bool]:
        await call.service.fleet.chore(what, pool)
        return {"done": True}

    return json(await call.once(raw, act))


async def cancel(call: Call) -> Response:
    handle = await _handle(call)
    return await _tell(call, b"", handle.cancel)


async def stdin(call: Call) -> Response:
    handle, raw = await _handle(call), await call.raw()
    close = call.query("close") == "1"

    def feed() -> None:
        if raw:
            handle.write(raw)
        if close:
            handle.close_stdin()

    return await _tell(call, raw, feed, call.service.fleet.inputs)


async def signal(call: Call) -> Response:
    handle, number = await _handle(call), call.whole("number", 15, 1, 64)
    return await _tell(call, b"", lambda: handle.signal(number))


async def resize(call: Call) -> Response:
    handle = await _handle(call)
    rows, cols = call.whole("rows", 24, 1, 65_535), call.whole("cols", 80, 1, 65_535)
    return await _tell(call, b"", lambda: handle.resize(rows, cols))


BASE = "/v1/sandboxes/{id}/execs"
OPERATIONS = (
    Operation("POST", BASE, "use", run, "Run a command", ExecBody, ExecView, 200, ("wait",)),
    Operation("POST", f"{BASE}:stream", "use", follow, "Run and follow", ExecBody, media="application/x-ndjson"),
    Operation("POST", f"{BASE}/{{exec}}/cancel", "use", cancel, "TERM, a grace, KILL"),
    Operation(
        "POST",
        f"{BASE}/{{exec}}/stdin",
        "use",
        stdin,
        "Feed its input",
        bytes,
        query=("close",),
        takes="application/octet-stream",
    ),
    Operation("POST", f"{BASE}/{{exec}}/signal", "use", signal, "Signal all of it", query=("number",)),
    Operation("POST", f"{BASE}/{{exec}}/resize", "use", resize, "Its terminal's size", query=("rows", "cols")),
    Operation("GET", BASE, "read", listing, "Commands that are known, without output", None, ExecView),
    Operation("GET", f"{BASE}/{{exec}}", "read", look, "Wait for its end", None, ExecView, 200, ("wait",)),
    Operation(
        "GET",
        f"{BASE}/{{exec}}/output",
        "read",
        spooled,
        "All that it said",
        query=("stream",),
        media="application/octet-stream",
    ),
    Operation(
        "GET",
        f"{BASE}/{{exec}}/events",
        "read",
        events,
        "Follow its output from a cursor",
        query=("after",),
        media="application/x-ndjson",
    ),
)
