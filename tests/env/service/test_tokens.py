"""What a lent token opens, and all that it does not."""

import base64
import json
import time

import pytest

from orchard_cli.env.remote.env import RemoteEnv
from orchard_cli.errors import SandboxError

from .conftest import Rest


def lent(rest: Rest, sandbox: str, **more: object) -> Rest:
    reply = rest("POST", "/v1/tokens", {"sandbox": sandbox, **more})
    assert reply.status == 201, reply.body
    return Rest(rest.url, reply.json["token"], rest.state)


def test_a_token_opens_its_sandbox_for_its_verbs_alone(rest: Rest) -> None:
    mine, other = rest.make(), rest.make()
    token = lent(rest, mine, verbs=["exec"])
    assert token.out(mine, "echo in") == "in\n"
    refused = [
        token.run(other, "true"),
        token("GET", f"/v1/sandboxes/{mine}"),
        token("DELETE", f"/v1/sandboxes/{mine}"),
        token("PUT", f"/v1/sandboxes/{mine}/files", b"x", path="f"),
        token("POST", f"/v1/sandboxes/{mine}/fork", {"n": 1}),
        token("POST", "/v1/leases", {"ids": [mine]}),
        token("GET", "/v1/sandboxes"),
        token("POST", "/v1/sandboxes", {}),
        token("POST", "/v1/keys", {"tenant": "x"}),
        token("POST", "/v1/tokens", {"sandbox": mine}),
        token("GET", "/v1/audit"),
        token("POST", f"/sandboxes/{mine}/exec", {"command": "true"}),
    ]
    assert {(reply.status, reply.code) for reply in refused} == {(403, "client.forbidden")}
    files = lent(rest, mine, verbs=["files"])
    assert files("PUT", f"/v1/sandboxes/{mine}/files", b"x", path="f").status in (200, 201)
    assert files.run(mine, "true").code == "client.forbidden"


def test_a_token_ends_with_its_time(rest: Rest) -> None:
    id = rest.make()
    token = lent(rest, id, ttl_s=0.3)
    assert token.run(id, "true").status == 200
    time.sleep(0.35)
    over = token.run(id, "true")
    assert (over.status, over.code) == (401, "client.token_expired")


def test_a_token_ends_with_its_key_and_grants_no_more_than_it(rest: Rest) -> None:
    id = rest.keyed(tenant="other").make()
    key = rest("POST", "/v1/keys", {"tenant": "other", "scopes": ["read", "use"]}).json
    holder = Rest(rest.url, key["secret"])
    token = lent(holder, id, verbs=["exec", "fork", "network"])
    assert token.run(id, "true").status == 200
    assert token("POST", f"/v1/sandboxes/{id}/fork", {"n": 1}).code == "client.forbidden"
    assert holder("POST", "/v1/tokens", {"sandbox": rest.make()}).code == "client.no_such_sandbox"
    assert rest("DELETE", f"/v1/keys/{key['id']}").status == 204
    assert token.run(id, "true").code == "client.wrong_key"


def test_a_token_is_not_good_for_a_later_sandbox_of_the_same_name(rest: Rest) -> None:
    rest.make(id="twice")
    token = lent(rest, "twice")
    rest("DELETE", "/v1/sandboxes/twice")
    rest.make(id="twice")
    assert token.run("twice", "true").code == "client.no_such_sandbox"


def test_a_token_that_was_changed_is_refused(rest: Rest) -> None:
    mine, other = rest.make(), rest.make()
    token = lent(rest, mine).key
    payload, mac = token.removeprefix("ort_").split(".")
    told = json.loads(base64.urlsafe_b64decode(payload + "=="))
    told[2] = other
    forged = base64.urlsafe_b64encode(json.dumps(told, separators=(",", ":")).encode()).rstrip(b"=").decode()
    for wrong in (
        f"ort_{forged}.{mac}",
        f"ort_{payload}.",
        "ort_.",
        "ort_",
        f"ort_{payload}.{mac[:-2]}",
        f"{token}.x",
        "ort_ä",
    ):
        reply = Rest(rest.url, "", rest.state)(
            "POST", f"/v1/sandboxes/{other}/execs", {"script": "true"}, {"Authorization": f"Bearer {wrong}".encode()}
        )
        assert (reply.status, reply.code) == (403, "client.wrong_key"), wrong


@pytest.mark.parametrize("body", [{"verbs": ["all"]}, {"verbs": []}, {"ttl_s": 0}, {"ttl_s": 1e9}, {"ttl_s": -1}])
def test_a_token_that_cannot_be_is_not_lent(rest: Rest, body: dict[str, object]) -> None:
    reply = rest("POST", "/v1/tokens", {"sandbox": rest.make(), **body})
    assert (reply.status, reply.code) == (400, "client.bad_request")


def test_the_client_works_with_a_token(rest: Rest) -> None:
    mine, other = rest.make(), rest.make()
    with RemoteEnv(rest.url, rest.key) as env:
        token = env.token(mine)
    with RemoteEnv(rest.url, token) as lender:
        assert lender.attach(mine).exec("echo hi").stdout == b"hi\n"
        with pytest.raises(SandboxError) as caught:
            lender.attach(other)
        assert caught.value.fault.code == "client.forbidden"
