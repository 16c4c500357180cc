"""Sandboxes and snapshots: make, list, look, renew, fork, delete."""

import asyncio
import secrets
from typing import Any

from starlette.responses import Response

from ....errors import SandboxError
from ..bodies import (
    BatchAnswer,
    BatchBody,
    BatchItem,
    ForkBody,
    LeaseBody,
    Lifetime,
    Page,
    Renewed,
    SandboxBody,
    SandboxView,
    SnapshotBody,
)
from ..call import Call, Operation, json
from ..live import Live
from ..problem import fault_view, refused
from ..specs import check_labels, new_id
from ..store.store import Kind

MOST = 1000  # of one batch
PROOF = "x-orchard-host-proof"
PLURAL: dict[Kind, str] = {"sandbox": "sandboxes", "snapshot": "snapshots"}


async def create(call: Call) -> Response:
    body, raw = await call.read(SandboxBody)
    name = body.id or new_id()

    async def act() -> dict[str, Any]:
        await call.service.fleet.create(body, call.who, call.header(PROOF), name)
        return {"id": name}

    answer = await call.once(raw, act, {"id": name})
    return await _shown(call, await call.service.fleet.locate(answer["id"], call.who))


async def _shown(call: Call, live: Live) -> Response:
    """Once it is settled or time is up; a creation that failed is told as the fault that it is."""
    await _settle(live, call.wait_s)
    if live.fault:
        raise live.fault
    status = 201 if live.state == "ready" else 202
    return json(live.view(), status, {"Location": f"/v1/{PLURAL[live.kind]}/{live.id}"})


async def _settle(live: Live, seconds: float) -> None:
    if not live.settled.is_set() and seconds > 0:
        try:
            await asyncio.wait_for(live.settled.wait(), seconds)
        except TimeoutError:
            return


async def batch(call: Call) -> Response:
    body, raw = await call.read(BatchBody)
    if not 0 < len(body.items) <= MOST:
        raise refused(f"a batch has 1 to {MOST} items", "client.bad_request")
    names = [item.id or new_id() for item in body.items]
    fleet, proof = call.service.fleet, call.header(PROOF)

    async def one(item: SandboxBody, name: str) -> dict[str, Any]:
        try:
            await fleet.create(item, call.who, proof, name)
        except SandboxError as error:
            return {"fault": fault_view(error)}
        return {"id": name}

    async def act() -> dict[str, Any]:
        return {"items": [await one(item, name) for item, name in zip(body.items, names, strict=True)]}

    answer = await call.once(raw, act)
    items = [await _item(call, item) for item in answer["items"]]
    return json(BatchAnswer(items=tuple(items)), 207)


async def _item(call: Call, item: dict[str, Any]) -> BatchItem:
    if "fault" in item:
        return BatchItem(fault=item["fault"])
    try:
        live = await call.service.fleet.locate(item["id"], call.who)
    except SandboxError as error:
        return BatchItem(fault=fault_view(error))
    await _settle(live, call.wait_s)
    return BatchItem(sandbox=live.view())


def _listing(kind: Kind) -> Any:
    async def listing(call: Call) -> Response:
        labels = dict(_label(text) for text in call.queries("label"))
        limit, after = max(1, int(call.number("limit", 100, 1000))), _text("after", call.query("after"))
        found = await call.service.fleet.page(call.who, labels, after, limit, kind)
        return json(Page(items=tuple(found), next=found[-1].id if len(found) == limit else ""))

    return listing


def _text(name: str, value: str) -> str:
    """What a store can look for; only paths may be bytes that are no text."""
    if any("\ud800" <= letter <= "\udfff" for letter in value):
        raise refused(f"`{name}` is not UTF-8", "client.bad_request")
    return value


def _label(text: str) -> tuple[str, str]:
    key, equals, value = _text("label", text).partition("=")
    if not equals:
        raise refused(f"the label `{text[:80]}` is not KEY=VALUE", "client.bad_request", hint="?label=KEY%3DVALUE")
    return key, value


async def look(call: Call) -> Response:
    live = await call.service.fleet.locate(call.path("id"), call.who)
    await _settle(live, call.wait_s)
    return json(live.view())


async def delete(call: Call) -> Response:
    await call.service.fleet.delete(await call.service.fleet.locate(call.path("id"), call.who))
    return Response(status_code=204)


async def delete_snapshot(call: Call) -> Response:
    await call.service.fleet.delete(await call.service.fleet.locate(call.path("id"), call.who, "snapshot"))
    return Response(status_code=204)


async def renew(call: Call) -> Response:
    body, _ = await call.read(LeaseBody)
    live = await call.service.fleet.locate(call.path("id"), call.who)
    return json(Renewed(expires={live.id: live.renew(body.lease_s)}))


async def renew_many(call: Call) -> Response:
    body, _ = await call.read(LeaseBody)
    expires, unknown = dict[str, float](), []
    for id in body.ids[:10_000]:
        try:
            expires[id] = call.service.fleet.get(id, call.who).renew(body.lease_s)
        except SandboxError:
            unknown.append(id)
    return json(Renewed(expires=expires, unknown=tuple(unknown)))


async def fork(call: Call) -> Response:
    body, raw = await call.read(ForkBody)
    check_labels(body.labels)
    if not 1 <= body.n <= 256:
        raise refused("`n` is between 1 and 256", "client.bad_request")
    source, stem = call.path("id"), new_id()
    names = [f"{stem}-{number}" for number in range(body.n)]

    async def act() -> dict[str, Any]:
        fleet, made = call.service.fleet, list[Live]()
        try:
            for name in names:
                origin = await fleet.locate(source, call.who)
                how = (body.labels, body.lifetime, name)
                made.append(await fleet.fork(origin, call.who, *how, processes=body.processes))
        except SandboxError:  # all or none: nobody was told the names of those that there are
            await asyncio.gather(*(fleet.delete(live) for live in made), return_exceptions=True)
            raise
        return {"ids": names}

    answer = await call.once(raw, act, {"ids": names})
    lives = [await call.service.fleet.locate(id, call.who) for id in answer["ids"]]
    await asyncio.gather(*(_settle(live, call.wait_s) for live in lives))
    failed = [live.fault for live in lives if live.fault]
    if failed and len(failed) == len(lives):
        raise failed[0]
    return json(Page(items=tuple(live.view() for live in lives)), 201)


async def snapshot(call: Call) -> Response:
    body, raw = await call.read(SnapshotBody)
    check_labels(body.labels)
    source, name = call.path("id"), f"sn-{secrets.token_hex(10)}"
    lifetime = Lifetime(lease_s=body.ttl_s, max_lifetime_s=body.ttl_s)

    async def act() -> dict[str, Any]:
        origin = await call.service.fleet.locate(source, call.who)
        await call.service.fleet.fork(origin, call.who, body.labels, lifetime, name, "snapshot")
        return {"id": name}

    answer = await call.once(raw, act, {"id": name})
    return await _shown(call, await call.service.fleet.locate(answer["id"], call.who, "snapshot"))


LIST = ("label", "after", "limit")
WAIT = ("wait",)
ONE = "/v1/sandboxes/{id}"
OPERATIONS = (
    Operation("POST", "/v1/sandboxes", "create", create, "Make one", SandboxBody, SandboxView, 201, ("wait",)),
    Operation("GET", "/v1/sandboxes", "read", _listing("sandbox"), "List", None, Page, 200, LIST),
    Operation("POST", "/v1/sandboxes:batch", "create", batch, "Make many", BatchBody, BatchAnswer, 207, ("wait",)),
    Operation("POST", "/v1/leases", "use", renew_many, "Renew many leases", LeaseBody, Renewed),
    Operation("GET", "/v1/sandboxes/{id}", "read", look, "Look at one", None, SandboxView, 200, ("wait",)),
    Operation("DELETE", "/v1/sandboxes/{id}", "create", delete, "Close it and every trace", status=204),
    Operation("POST", "/v1/sandboxes/{id}/lease", "use", renew, "Renew its lease", LeaseBody, Renewed),
    Operation("POST", "/v1/sandboxes/{id}/fork", "create", fork, "Copies of its files", ForkBody, Page, 201, ("wait",)),
    Operation("POST", f"{ONE}/snapshots", "create", snapshot, "Keep its files", SnapshotBody, SandboxView, 201, WAIT),
    Operation("GET", "/v1/snapshots", "read", _listing("snapshot"), "List snapshots", None, Page, 200, LIST),
    Operation("DELETE", "/v1/snapshots/{id}", "create", delete_snapshot, "Delete a snapshot", status=204),
)
