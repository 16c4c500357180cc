"""The stream of what happens, and the OpenAPI document that says what may be asked."""

import http.client
import json
from collections.abc import Generator
from urllib.parse import urlsplit

from orchard_cli.env.service.app import OPERATIONS

from .conftest import Rest


def events(rest: Rest, **headers: str) -> Generator[dict[str, object], None, None]:
    connection = http.client.HTTPConnection(urlsplit(rest.url).netloc, timeout=20)
    connection.request("GET", "/v1/events", headers={"Authorization": f"Bearer {rest.key}", **headers})
    reply = connection.getresponse()
    assert reply.headers["content-type"].startswith("text/event-stream")
    try:
        for line in reply:
            if line.startswith(b"data: "):
                yield json.loads(line[6:])
            elif line == b": open\n":
                yield {}
    finally:
        reply.close()
        connection.close()


def test_a_life_is_told_and_only_to_its_tenant(rest: Rest) -> None:
    one, two = rest.keyed(tenant="heard"), rest.keyed(tenant="unheard")
    mine, theirs = events(one), events(two)
    assert (next(mine), next(theirs)) == ({}, {})
    id = one.make(labels={"a": "1"})
    one("DELETE", f"/v1/sandboxes/{id}")
    other = two.make()
    seen = [next(mine) for _ in range(3)]
    assert [event["type"] for event in seen] == ["created", "ready", "deleted"]
    assert {event["sandbox"] for event in seen} == {id}
    assert next(theirs)["sandbox"] == other
    later = events(one, **{"Last-Event-ID": str(seen[0]["seq"])})
    assert next(later) == {}
    assert [next(later)["type"] for _ in range(2)] == ["ready", "deleted"]
    for listening in (mine, theirs, later):
        listening.close()


def test_an_end_by_its_lease_is_told_as_expired(rest: Rest) -> None:
    heard = events(rest)
    assert next(heard) == {}
    id = rest.make(lifetime={"lease_s": 0.2})
    seen = [next(heard) for _ in range(3)]
    assert [event["type"] for event in seen] == ["created", "ready", "expired"]
    assert rest("GET", f"/v1/sandboxes/{id}").code == "client.gone"
    heard.close()


def test_every_operation_is_described(rest: Rest) -> None:
    document = Rest(rest.url, "")("GET", "/v1/openapi.json").json
    assert document["openapi"] == "3.1.0"
    described = {(method.upper(), path) for path, found in document["paths"].items() for method in found}
    assert described == {(operation.method, operation.path) for operation in OPERATIONS}
    names = [op["operationId"] for found in document["paths"].values() for op in found.values()]
    assert len(names) == len(set(names))
    text = json.dumps(document)
    for reference in {part.split('"')[0] for part in text.split('"#/components/schemas/')[1:]}:
        assert reference in document["components"]["schemas"]


def test_what_is_described_is_what_is_enforced(rest: Rest) -> None:
    """Every operation with a scope refuses a nobody; every other one answers."""
    nobody = Rest(rest.url, "")
    for operation in OPERATIONS:
        path = operation.path.replace("{", "").replace("}", "")
        reply = nobody(operation.method, path)
        assert (reply.status == 401) == bool(operation.scope), operation.name
