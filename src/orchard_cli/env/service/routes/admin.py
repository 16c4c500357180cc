"""What the service says about itself, and what its operator does: keys, audit, sweeps."""

from collections import Counter
from collections.abc import AsyncIterator

import msgspec
from starlette.responses import Response

from .... import __version__
from ..bodies import KeyBody, KeyView, TokenBody, TokenView
from ..call import Call, Operation, json, stream


async def live(call: Call) -> Response:
    return json({"alive": True})


async def ready(call: Call) -> Response:
    state = call.service.ready
    return json({"ready": all(state.values()), **state}, 200 if all(state.values()) else 503)


async def metrics(call: Call) -> Response:
    lives = call.service.fleet.lives.values()
    running = sum(held.execs.running for held in lives if held.execs)
    page = call.service.metrics.page(Counter(held.state for held in lives), running)
    return Response(page, media_type="text/plain; version=0.0.4")


async def capabilities(call: Call) -> Response:
    service = call.service
    terms = service.settings.terms
    return json(
        {
            "version": __version__,
            "server": service.fleet.server,
            "env": service.fleet.env.describe(),
            "images": sorted(service.settings.images),
            "same_host": str(service.host.path),
            "lease_s": terms.lease_s,
            "max_lease_s": terms.max_lease_s,
            "max_lifetime_s": terms.max_lifetime_s,
            "tenant": call.who.tenant,
            "scopes": sorted(call.who.scopes),
        }
    )


async def events(call: Call) -> Response:
    """Server-sent events; `Last-Event-ID`, or `after`, goes on from there."""
    text = call.header("last-event-id") or call.query("after")
    frames = call.service.bus.follow(call.who, int(text) if text.isdecimal() else None)

    async def lines() -> AsyncIterator[bytes]:
        yield b": open\n\n"
        async for frame in frames:
            if "seq" not in frame:
                yield b": ping\n\n"
                continue
            body = msgspec.json.encode(frame).decode()
            yield f"id: {frame['seq']}\nevent: {frame['type']}\ndata: {body}\n\n".encode()

    return stream(lines(), "text/event-stream")


async def make_key(call: Call) -> Response:
    body, _ = await call.read(KeyBody)
    return json(await call.service.keys.make(body), 201)


async def list_keys(call: Call) -> Response:
    return json(await call.service.keys.list())


async def withdraw_key(call: Call) -> Response:
    await call.service.keys.withdraw(call.path("key"))
    return Response(status_code=204)


async def lend(call: Call) -> Response:
    body, _ = await call.read(TokenBody)
    call.notes["sandbox"] = body.sandbox[:100]
    live = await call.service.fleet.locate(body.sandbox, call.who)
    return json(call.service.tokens.lend(body, call.who, live), 201)


async def audit(call: Call) -> Response:
    limit = int(call.number("limit", 100, 10_000))
    return json(call.service.audit.tail(limit, call.query("tenant") or None))


async def sweep(call: Call) -> Response:
    return json(await call.service.upkeep.sweep())


OPERATIONS = (
    Operation("GET", "/livez", "", live, "The process answers"),
    Operation("GET", "/readyz", "", ready, "It takes work: store and audit log can be written"),
    Operation("GET", "/metrics", "read", metrics, "For Prometheus", media="text/plain"),
    Operation("GET", "/v1/capabilities", "read", capabilities, "What was proven here, and what is offered"),
    Operation("GET", "/v1/events", "read", events, "What happens", query=("after",), media="text/event-stream"),
    Operation("POST", "/v1/keys", "admin", make_key, "Make an API key", KeyBody, KeyView, 201),
    Operation("GET", "/v1/keys", "admin", list_keys, "List API keys", None, KeyView),
    Operation("DELETE", "/v1/keys/{key}", "admin", withdraw_key, "Withdraw an API key", status=204),
    Operation("POST", "/v1/tokens", "use", lend, "Lend a token for one sandbox", TokenBody, TokenView, 201),
    Operation("GET", "/v1/audit", "admin", audit, "The newest lines of the audit log", query=("limit", "tenant")),
    Operation("POST", "/v1/gc", "admin", sweep, "One round of upkeep, now"),
)
