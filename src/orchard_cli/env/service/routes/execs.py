"""Commands: run, wait, follow, cancel."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
from starlette.responses import Response

from ..bodies import ExecBody, ExecView
from ..call import Call, Operation, json, stream
from ..execs import Execution, new_id
from ..live import Live
from ..problem import refused


async def run(call: Call) -> Response:
    """Answered when the command ended or `wait` is over, whichever is first; its id serves to ask again."""
    live, execution = await begin(call)
    view = await execution.wait(call.wait_s)
    live.touch()
    return json(view, 200 if view.state != "running" else 202)


async def begin(call: Call) -> tuple[Live, Execution]:
    body, raw = await call.read(ExecBody)
    service, who = call.service, call.who
    live = await service.fleet.locate(call.path("id"), who)
    _, execs = live.open_box()
    live.touch()
    id = new_id()

    async def act() -> dict[str, Any]:
        if service.busy[who.key] >= who.max_execs:
            raise refused(f"this key may run {who.max_execs} commands at once", "capacity.quota")
        execution = execs.start(body, id)
        service.busy[who.key] += 1
        execution.ended.add_done_callback(lambda _: service.busy.subtract([who.key]))
        return {"exec": id}

    answer = await call.once(raw, act, {"exec": id})
    return live, execs.find(answer["exec"])


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
    return json(live.execs.list() if live.execs else [])


async def events(call: Call) -> Response:
    execution = await _find(call)
    after = int(call.number("after", 0, 1 << 62))
    return stream(_lines(execution, after), "application/x-ndjson")


async def _lines(execution: Execution, after: int) -> AsyncIterator[bytes]:
    async for frame in execution.journal.follow(after):
        yield msgspec.json.encode(frame) + b"\n"


async def follow(call: Call) -> Response:
    """Run and follow in one request; the id is in the header, to go on from the last `seq` elsewhere."""
    _, execution = await begin(call)
    return stream(_lines(execution, 0), "application/x-ndjson", {"X-Orchard-Exec": execution.id})


BASE = "/v1/sandboxes/{id}/execs"
OPERATIONS = (
    Operation("POST", BASE, "use", run, "Run a command", ExecBody, ExecView, 200, ("wait",)),
    Operation("POST", f"{BASE}:stream", "use", follow, "Run and follow", ExecBody, media="application/x-ndjson"),
    Operation("GET", BASE, "read", listing, "Commands that are known", None, ExecView),
    Operation("GET", f"{BASE}/{{exec}}", "read", look, "Wait for its end", None, ExecView, 200, ("wait",)),
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
