"""Make, list, look, fork, keep, delete."""

import time

from .conftest import Rest


def test_a_sandbox_is_made_used_and_gone(rest: Rest) -> None:
    made = rest("POST", "/v1/sandboxes", {"labels": {"task": "t1"}}, wait=30)
    id = made.json["id"]
    assert made.status == 201
    assert made.headers["location"] == f"/v1/sandboxes/{id}"
    assert made.json["isolation"] == "bwrap"
    assert rest.out(id, "echo hi") == "hi\n"
    assert rest("DELETE", f"/v1/sandboxes/{id}").status == 204
    gone = rest("GET", f"/v1/sandboxes/{id}")
    assert (gone.status, gone.code) == (410, "client.gone")


def test_creation_may_be_waited_for_later(rest: Rest) -> None:
    made = rest("POST", "/v1/sandboxes", {})
    assert made.status in (201, 202)
    assert rest("GET", f"/v1/sandboxes/{made.json['id']}", wait=30).json["state"] == "ready"


def test_a_list_is_by_label_and_in_pages(rest: Rest) -> None:
    batch = {"items": [{"labels": {"group": "a", "n": str(n)}} for n in range(5)] + [{"labels": {"group": "b"}}]}
    made = rest("POST", "/v1/sandboxes:batch", batch, wait=30)
    assert [item["sandbox"]["state"] for item in made.json["items"]] == ["ready"] * 6
    first = rest("GET", "/v1/sandboxes", label="group=a", limit=3).json
    second = rest("GET", "/v1/sandboxes", label="group=a", limit=3, after=first["next"]).json
    labels = [item["labels"]["n"] for item in first["items"] + second["items"]]
    assert sorted(labels) == ["0", "1", "2", "3", "4"]
    assert not second["next"]


def test_a_fork_of_what_runs_is_refused_at_once_where_it_cannot_be(rest: Rest) -> None:
    id = rest.make()
    reply = rest("POST", f"/v1/sandboxes/{id}/fork", {"processes": True})
    assert (reply.status, reply.code) == (501, "client.unsupported")
    assert [item["id"] for item in rest("GET", "/v1/sandboxes").json["items"]] == [id]


def test_a_bad_item_of_a_batch_fails_alone(rest: Rest) -> None:
    made = rest("POST", "/v1/sandboxes:batch", {"items": [{}, {"image": "none-such"}]}, wait=30)
    assert made.status == 207
    assert made.json["items"][0]["sandbox"]["state"] == "ready"
    assert made.json["items"][1]["fault"]["code"] == "client.unknown_image"


def test_forks_have_the_files_and_lives_of_their_own(rest: Rest) -> None:
    id = rest.make()
    rest.out(id, "echo base >f")
    forks = rest("POST", f"/v1/sandboxes/{id}/fork", {"n": 2, "labels": {"of": id}}, wait=30)
    first, second = (item["id"] for item in forks.json["items"])
    rest.out(first, "echo changed >f")
    assert rest.out(second, "cat f") == "base\n"
    assert rest.out(id, "cat f") == "base\n"
    assert len(rest("GET", "/v1/sandboxes", label=f"of={id}").json["items"]) == 2


def test_a_snapshot_outlives_its_source(rest: Rest) -> None:
    id = rest.make()
    rest.out(id, "echo kept >f")
    kept = rest("POST", f"/v1/sandboxes/{id}/snapshots", {"labels": {"at": "turn 3"}}, wait=30).json["id"]
    rest.out(id, "echo later >f")
    rest("DELETE", f"/v1/sandboxes/{id}")
    assert [item["id"] for item in rest("GET", "/v1/snapshots").json["items"]] == [kept]
    again = rest.make(from_snapshot=kept)
    assert rest.out(again, "cat f") == "kept\n"


def test_an_unused_sandbox_ends_with_its_lease(rest: Rest) -> None:
    id = rest.make(lifetime={"lease_s": 0.3})
    assert _gone(rest, id)
    assert "lease" in rest("GET", f"/v1/sandboxes/{id}").json["detail"]


def test_renewals_keep_it_and_a_running_command_does(rest: Rest) -> None:
    id, busy = rest.make(lifetime={"lease_s": 3}), rest.make(lifetime={"lease_s": 3})
    rest("POST", f"/v1/sandboxes/{busy}/execs", {"script": "sleep 20"})
    began = time.monotonic()
    while time.monotonic() < began + 4:
        time.sleep(0.2)
        renewed = rest("POST", "/v1/leases", {"ids": [id, "sb-nobody"]}).json
        assert renewed["unknown"] == ["sb-nobody"]
    assert rest("GET", f"/v1/sandboxes/{busy}").json["state"] == "ready"
    assert _gone(rest, id)


def test_no_renewal_goes_beyond_the_longest_lifetime(rest: Rest) -> None:
    id = rest.make(lifetime={"lease_s": 60, "max_lifetime_s": 0.3})
    rest("POST", f"/v1/sandboxes/{id}/lease", {"lease_s": 60})
    assert _gone(rest, id)


def test_what_expires_may_leave_a_snapshot(rest: Rest) -> None:
    id = rest.make(lifetime={"lease_s": 0.5, "on_expire": "snapshot"}, labels={"keep": "me"})
    rest.out(id, "echo kept >f")
    assert _gone(rest, id)
    (kept,) = rest("GET", "/v1/snapshots", label="keep=me").json["items"]
    assert rest.out(rest.make(from_snapshot=kept["id"]), "cat f") == "kept\n"


def test_a_store_that_was_wiped_is_filled_from_what_lives(rest: Rest) -> None:
    id = rest.make(labels={"a": "b"})
    import sqlite3

    with sqlite3.connect(rest.state / "store.sqlite", timeout=10) as db:
        db.execute("DELETE FROM record")
    db.close()
    until = time.monotonic() + 10
    while not (found := rest("GET", "/v1/sandboxes", label="a=b").json["items"]) and time.monotonic() < until:
        time.sleep(0.05)
    assert [item["id"] for item in found] == [id]
    assert rest.out(id, "echo lives") == "lives\n"


def _gone(rest: Rest, id: str) -> bool:
    until = time.monotonic() + 15
    while time.monotonic() < until:
        if rest("GET", f"/v1/sandboxes/{id}").status == 410:
            return True
        time.sleep(0.05)
    return False


def test_forks_are_all_made_or_none(rest: Rest) -> None:
    few = rest.keyed(tenant="few", scopes=["read", "use", "create"], max_sandboxes=3)
    id = few.make()
    for _ in range(2):  # nor is a place taken by what nobody was told of
        assert few("POST", f"/v1/sandboxes/{id}/fork", {"n": 5}, wait=30).code == "capacity.quota"
        assert [item["id"] for item in few("GET", "/v1/sandboxes").json["items"]] == [id]
    assert few("POST", f"/v1/sandboxes/{id}/fork", {"n": 2}, wait=30).status == 201
