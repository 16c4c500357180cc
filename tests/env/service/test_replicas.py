"""Two real servers on one real PostgreSQL: who holds what, what both must count, and what the death of one means."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import ROOT, Rest
from .postgres import Postgres
from .test_crash import gone, serve

DEAD = ("--dead-s", "3")
Pair = tuple[Rest, Rest]


@pytest.fixture
def pair(postgres: Postgres, tmp_path: Path) -> Iterator[tuple[Pair, int]]:
    """Both, and the pid of the first."""
    url = postgres.fresh("replicas")
    with (
        serve(tmp_path / "a", "--database", url, *DEAD) as (a, first),
        serve(tmp_path / "b", "--database", url, *DEAD) as (b, second),
    ):
        yield (a, b), first.pid
        for server in (first, second):
            server.terminate()
            server.wait(60)


def test_two_servers_on_one_database(pair: tuple[Pair, int]) -> None:
    (a, b), first = pair
    owner = a("GET", "/v1/capabilities").json["server"]
    id = a.make(id="held-by-a")
    _names_the_owner(a, b, owner, id)
    _counts_once(a, b)
    _a_key_is_used_once(a, b)
    mark = f"93{os.getpid()}"
    begun = a("POST", f"/v1/sandboxes/{id}/execs", {"script": f"exec sleep {mark}"}).json["id"]
    os.kill(first, signal.SIGKILL)
    until = time.monotonic() + 30
    while (told := b("GET", f"/v1/sandboxes/{id}")).status == 421 and time.monotonic() < until:
        time.sleep(0.2)
    assert (told.status, told.code) == (410, "infra.sandbox_lost") and "lost" in told.json["detail"]
    assert b("GET", f"/v1/sandboxes/{id}/execs/{begun}").code == "infra.sandbox_lost"
    assert id not in [item["id"] for item in b("GET", "/v1/sandboxes").json["items"]]
    assert gone(f"sleep\0{mark}")
    assert b.make(id=id) == id  # the name is free again, and nothing of the dead one is in the way
    assert b.out(id, "ls") == ""


def _names_the_owner(a: Rest, b: Rest, owner: str, id: str) -> None:
    path = f"/v1/sandboxes/{id}"
    asked = (
        b("GET", path),
        b.run(id, "true"),
        b("DELETE", path),
        b("POST", f"{path}/fork", {"n": 1}),
        b("PUT", f"{path}/files", b"x", path="f"),
        b("POST", f"{path}/lease", {}),
    )
    for reply in asked:
        assert (reply.status, reply.code, reply.json["retry"]) == (421, "client.other_server", "same")
        assert owner in reply.json["detail"] and a.url in reply.json["hint"]
    assert b("POST", "/v1/sandboxes", {"id": id}).code == "client.id_taken"
    assert [item["server"] for item in b("GET", "/v1/sandboxes").json["items"]] == [owner]
    stranger = b.keyed(tenant="stranger", scopes=["read", "use"])
    assert stranger("GET", path).code == "client.no_such_sandbox"


def _counts_once(a: Rest, b: Rest) -> None:
    """A key's places are those of both servers together; an expired lease is ended by its owner alone."""
    few = a.keyed(tenant="few", scopes=["read", "use", "create"], max_sandboxes=2)
    there = Rest(b.url, few.key)
    made = [(few, few.make()), (there, there.make())]
    for server in (few, there):
        assert server("POST", "/v1/sandboxes", {}).code == "capacity.quota"
    for server, id in made:
        assert server("DELETE", f"/v1/sandboxes/{id}").status == 204
    short = few.make(lifetime={"lease_s": 0.5})
    until = time.monotonic() + 15
    while there("GET", f"/v1/sandboxes/{short}").status == 421 and time.monotonic() < until:
        time.sleep(0.1)
    assert few("GET", f"/v1/sandboxes/{short}").code == "client.gone"
    assert there("GET", "/v1/sandboxes").json["items"] == []
    expired = [line for line in b("GET", "/v1/audit", limit=1000).json if line.get("sandbox") == short]
    assert all(line["status"] != 204 for line in expired)


def _a_key_is_used_once(a: Rest, b: Rest) -> None:
    """The same keyed request at both: one is done, the other told who did it."""
    key = {"Idempotency-Key": "at-both", "Authorization": f"Bearer {ROOT}"}
    made = a("POST", "/v1/sandboxes", {"labels": {"n": "1"}}, key, wait=30)
    again = b("POST", "/v1/sandboxes", {"labels": {"n": "1"}}, key, wait=30)
    assert made.status == 201 and again.code == "client.other_server"
    found = b("GET", "/v1/sandboxes", label="n=1").json["items"]
    assert [item["id"] for item in found] == [made.json["id"]]
