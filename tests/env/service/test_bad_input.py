"""Whatever comes in, a typed refusal goes out: no traceback, nothing done, nothing left."""

import http.client
import json
import socket
from urllib.parse import urlsplit

import pytest

from orchard_cli.env.service.problem import status_of
from orchard_cli.errors import Attributable, SandboxError

from .conftest import Rest

BODIES = {
    "no JSON": b"{",
    "no UTF-8": b'{"id": "\xff"}',
    "a list": b"[]",
    "an unknown field": b'{"imgae": "host"}',
    "a wrong type": b'{"labels": 3}',
    "deep": b"[" * 100_000,
    "id with a slash": b'{"id": "a/b"}',
    "id of dots": b'{"id": ".."}',
    "id too long": b'{"id": "' + b"a" * 64 + b'"}',
    "a label of ours": b'{"labels": {"orchard/x": "1"}}',
    "a bad variable": b'{"env": {"A=B": "1"}}',
    "a NUL": b'{"env": {"A": "\\u0000"}}',
    "a negative limit": b'{"limits": {"memory_mb": -1}}',
    "a limit beyond all machines": b'{"limits": {"pids": 9223372036854775807}}',
    "a negative lease": b'{"lifetime": {"lease_s": -1}}',
    "a negative idle time": b'{"lifetime": {"idle_timeout_s": -0.5}}',
    "a lifetime that is no number": b'{"lifetime": {"max_lifetime_s": NaN}}',
    "an endless lifetime": b'{"lifetime": {"max_lifetime_s": 1e999}}',
    "a lifetime beyond all machines": b'{"lifetime": {"max_lifetime_s": 1e300}}',
    "the id of a new one": b'{"id": "new"}',
    "a bad network": b'{"network": "maybe"}',
    "a bad source": b'{"tree": "ftp:x"}',
    "a bad hash": b'{"tree": "sha256:../../etc"}',
    "a bind upwards": b'{"binds": [{"source": "host:/usr", "target": "/a/../../etc"}]}',
    "snapshot and image": b'{"from_snapshot": "sn-1", "image": "x"}',
}


@pytest.mark.parametrize("name", BODIES)
def test_a_bad_spec_is_a_clients_fault(rest: Rest, name: str) -> None:
    reply = rest("POST", "/v1/sandboxes", BODIES[name], wait=10)
    assert reply.status in (400, 403, 404), reply.body
    assert reply.code.startswith("client.")
    assert (reply.json["attributable"], reply.json["effect"], reply.json["retry"]) == ("client", "none", "never")
    assert rest("GET", "/v1/sandboxes").json["items"] == []


@pytest.mark.parametrize("wrong", [{"id": "a/b"}, {"id": "new"}, {"labels": {"orchard/x": "1"}}])
def test_nor_does_a_snapshot_come_back_under_a_bad_name(rest: Rest, wrong: dict[str, object]) -> None:
    kept = rest("POST", f"/v1/sandboxes/{rest.make()}/snapshots", {}, wait=30).json["id"]
    reply = rest("POST", "/v1/sandboxes", {"from_snapshot": kept, **wrong}, wait=30)
    assert (reply.status, reply.code) == (400, "client.bad_request")


@pytest.mark.parametrize("workdir", ["relative", "/", "/etc", "/proc"])
def test_a_work_directory_that_cannot_be(rest: Rest, workdir: str) -> None:
    reply = rest("POST", "/v1/sandboxes", {"workdir": workdir}, wait=10)
    assert (reply.status, reply.code) == (400, "client.bad_spec")


def test_an_unknown_image_is_named_with_those_there_are(rest: Rest) -> None:
    reply = rest("POST", "/v1/sandboxes", {"image": "/etc"})
    assert (reply.status, reply.code) == (400, "client.unknown_image")
    assert "host" in reply.json["hint"]


def test_an_id_that_is_taken_is_told_in_the_same_words_whoever_holds_it(rest: Rest) -> None:
    one, two = rest.keyed(tenant="one"), rest.keyed(tenant="two")
    one.make(id="mine")
    own, others = (who("POST", "/v1/sandboxes", {"id": "mine"}) for who in (one, two))
    assert own.code == others.code == "client.id_taken"
    assert own.json["detail"] == others.json["detail"] and others.json["hint"]


@pytest.mark.parametrize("seconds", [-5, 1e300])
def test_a_lease_that_cannot_be_ends_nothing(rest: Rest, seconds: float) -> None:
    id = rest.make()
    one = rest("POST", f"/v1/sandboxes/{id}/lease", {"lease_s": seconds})
    many = rest("POST", "/v1/leases", {"ids": [id], "lease_s": seconds})
    kept = rest("POST", f"/v1/sandboxes/{id}/snapshots", {"ttl_s": seconds})
    assert {(reply.status, reply.code) for reply in (one, many, kept)} == {(400, "client.bad_request")}
    assert "lease_s" in one.json["detail"]
    assert rest.out(id, "echo alive") == "alive\n"


@pytest.mark.parametrize("field", ["ttl_s", "max_sandboxes", "max_execs"])
def test_a_key_for_less_than_nothing_is_not_made(rest: Rest, field: str) -> None:
    assert rest("POST", "/v1/keys", {"tenant": "t", field: -1}).code == "client.bad_request"


def test_what_the_server_will_not_open_leaves_no_record(rest: Rest) -> None:
    """Said at once, also to whoever does not wait, and the name stays free."""
    refused = [rest("POST", "/v1/sandboxes", {"id": "y", **wrong}) for wrong in ({"network": "open"}, {"workdir": "/"})]
    assert {reply.code for reply in refused} == {"client.bad_spec"}
    assert "--network open" in refused[0].json["hint"]
    assert rest("GET", "/v1/sandboxes").json["items"] == []
    assert rest.make(id="y") == "y"


def test_a_name_is_free_again_after_a_creation_that_failed(rest: Rest) -> None:
    one, two = rest.keyed(tenant="one"), rest.keyed(tenant="two")
    proof = {"X-Orchard-Host-Proof": (rest.state / "same-host").read_text()}
    failing = {"id": "y", "tree": "host:/etc/hostname"}
    failed = one("POST", "/v1/sandboxes", failing, proof, wait=30)
    assert failed.status >= 400
    seen = one("GET", "/v1/sandboxes").json["items"]
    assert [item["state"] for item in seen] == ["failed"]
    assert seen[0]["expires"] - seen[0]["created"] < 100  # and not for the whole of its lease
    assert two("POST", "/v1/sandboxes", {"id": "y"}).code == "client.id_taken"
    assert one.make(id="y") == "y"


@pytest.mark.parametrize(
    ("method", "path", "query"),
    [
        ("GET", "/v1/sandboxes", {"lable": "a=b"}),
        ("POST", "/v1/sandboxes", {"wiat": "3"}),
        ("GET", "/v1/snapshots", {"since": "3"}),
        ("POST", "/v1/gc", {"now": "1"}),
    ],
)
def test_a_word_of_the_query_that_means_nothing_is_named(
    rest: Rest, method: str, path: str, query: dict[str, str]
) -> None:
    reply = rest(method, path, {} if method == "POST" else None, None, **query)
    assert (reply.status, reply.code) == (400, "client.bad_request")
    assert next(iter(query)) in reply.json["detail"] and reply.json["hint"]
    assert rest("GET", "/v1/sandboxes").json["items"] == []


@pytest.mark.parametrize("number", ["999", "0", "-1", "9.5", "nine", "65", "²"])
def test_a_signal_that_is_none_is_not_sent(rest: Rest, number: str) -> None:
    id = rest.make()
    begun = rest("POST", f"/v1/sandboxes/{id}/execs", {"script": "sleep 60"}).json["id"]
    reply = rest("POST", f"/v1/sandboxes/{id}/execs/{begun}/signal", None, None, number=number)
    assert (reply.status, reply.code) == (400, "client.bad_request")
    assert rest("GET", f"/v1/sandboxes/{id}/execs/{begun}").json["state"] == "running"


@pytest.mark.parametrize("size", [{"rows": "0"}, {"cols": "70000"}, {"rows": "x"}])
def test_a_terminal_of_no_size(rest: Rest, size: dict[str, str]) -> None:
    id = rest.make()
    begun = rest("POST", f"/v1/sandboxes/{id}/execs", {"script": "sleep 60", "rows": 10, "cols": 10}).json["id"]
    assert rest("POST", f"/v1/sandboxes/{id}/execs/{begun}/resize", None, None, **size).code == "client.bad_request"
    assert rest("POST", f"/v1/sandboxes/{id}/execs", {"script": "true", "rows": -5}).code == "client.bad_request"


@pytest.mark.parametrize("length", ["abc", "-1", "1, 2"])
def test_a_bad_length_is_a_problem_document_too(rest: Rest, length: str) -> None:
    host, _, port = urlsplit(rest.url).netloc.partition(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(f"POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode())
        reply = http.client.HTTPResponse(connection)
        reply.begin()
        said = json.loads(reply.read())
    assert (reply.status, reply.headers["content-type"]) == (400, "application/problem+json")
    assert (said["code"], said["effect"]) == ("client.bad_request", "none")


COMMANDS = (
    {},
    {"script": "true", "argv": ["true"]},
    {"argv": []},
    {"script": "true", "timeout_s": 0},
    {"script": "true", "timeout_s": "NaN"},
    {"script": "true", "max_bytes": -1},
    {"script": "true", "stdin_b64": "?"},
    {"script": "tr\0ue"},
    {"argv": ["a\0b"]},
)


@pytest.mark.parametrize("number", range(len(COMMANDS)))
def test_a_bad_command_is_not_run(rest: Rest, number: int) -> None:
    reply = rest("POST", f"/v1/sandboxes/{rest.make()}/execs", COMMANDS[number], wait=10)
    code = reply.code if reply.status != 200 else reply.json["fault"]["code"]
    assert code in ("client.bad_request", "client.bad_argument")


def test_a_missing_directory_is_an_error_not_the_root(rest: Rest) -> None:
    reply = rest.run(rest.make(), "pwd", cwd="/none")
    assert reply.json["state"] == "failed"
    assert reply.json["fault"]["attributable"] in ("client", "model")
    assert reply.json["fault"]["effect"] == "none"


@pytest.mark.parametrize("path", ["../../etc/shadow", "/etc/shadow", "link", "/proc/1/root/etc/shadow"])
def test_no_path_leads_to_the_host(rest: Rest, path: str) -> None:
    id = rest.make()
    rest.out(id, "ln -s ../../../../../../etc/shadow link")
    for _ in ("small", "large"):
        reply = rest("GET", f"/v1/sandboxes/{id}/files", path=path)
        assert reply.status >= 400, reply.body
        assert b"root:" not in reply.body


def test_what_is_no_file_is_no_file(rest: Rest) -> None:
    id = rest.make()
    rest.out(id, "mkfifo pipe; mkdir d")
    codes = [rest("GET", f"/v1/sandboxes/{id}/files", path=path).code for path in ("pipe", "d", "none", "")]
    assert codes[:3] == ["client.not_a_file", "client.is_a_directory", "client.no_such_file"]
    assert codes[3].startswith("client.")
    assert rest("PUT", f"/v1/sandboxes/{id}/files", b"x", path="d").code == "client.is_a_directory"
    assert rest("PUT", f"/v1/sandboxes/{id}/files", b"x", path="f", mode="9").code == "client.bad_request"


def test_a_body_that_is_too_large_is_not_taken(rest: Rest) -> None:
    id = rest.make()
    declared = rest.run(id, "x" * (5 << 20))
    assert (declared.status, declared.code) == (413, "client.too_large")
    connection = http.client.HTTPConnection(urlsplit(rest.url).netloc, timeout=30)
    endless = (b" " * 65_536 for _ in range(100))
    headers = {"Authorization": f"Bearer {rest.key}"}
    connection.request("POST", f"/v1/sandboxes/{id}/execs", endless, headers, encode_chunked=True)
    assert connection.getresponse().status == 413
    connection.close()


@pytest.mark.parametrize(
    "raw", [b"\0\0\0\0\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET /\xff HTTP/1.1\r\n\r\n", b"{}\n\n"]
)
def test_what_is_no_http_ends_only_itself(rest: Rest, raw: bytes) -> None:
    host, _, port = urlsplit(rest.url).netloc.partition(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(raw)
        connection.shutdown(socket.SHUT_WR)
        connection.recv(4096)
    assert rest("GET", "/livez").status == 200


def test_routes_and_methods_that_there_are_not(rest: Rest) -> None:
    assert (rest("GET", "/v2/none").status, rest("GET", "/v2/none").code) == (404, "client.no_such_route")
    wrong = rest("PUT", "/v1/sandboxes")
    assert (wrong.status, wrong.code) == (405, "client.method")


@pytest.mark.parametrize("query", [{"wait": "x"}, {"wait": "-1"}, {"wait": "nan"}, {"limit": "inf"}])
def test_numbers_that_are_none(rest: Rest, query: dict[str, str]) -> None:
    reply = rest("GET", "/v1/sandboxes", None, None, **query) if "limit" in query else None
    reply = reply or rest("GET", f"/v1/sandboxes/{rest.make()}", None, None, **query)
    assert reply.code == "client.bad_request"


@pytest.mark.parametrize("key", ["", "x" * 201, "tab\there"])
def test_a_bad_idempotency_key(rest: Rest, key: str) -> None:
    reply = rest("POST", "/v1/sandboxes", {}, {"Idempotency-Key": key}, wait=10)
    assert reply.status == 400 if key else reply.status == 201


def test_a_lost_sandbox_names_no_policy(rest: Rest) -> None:
    id = rest.make()
    rest("DELETE", f"/v1/sandboxes/{id}")
    reply = rest.run(id, "true")
    assert (reply.status, reply.json["retry"]) == (410, "fresh")


@pytest.mark.parametrize(
    ("code", "owner", "status"),
    [
        ("sandbox.broken_by_workload", "model", 422),
        ("workload.too_deep", "model", 422),
        ("client.file_changed", "client", 400),
        ("capacity.agent_busy", "infra", 429),
        ("infra.agent_unreachable", "infra", 502),
    ],
)
def test_a_status_says_whose_doing_it_is(code: str, owner: Attributable, status: int) -> None:
    assert status_of(SandboxError("x", code=code, attributable=owner)) == status
