"""Whatever comes in, a typed refusal goes out: no traceback, nothing done, nothing left."""

import http.client
import socket
from urllib.parse import urlsplit

import pytest

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


@pytest.mark.parametrize("workdir", ["relative", "/", "/etc", "/proc"])
def test_a_work_directory_that_cannot_be(rest: Rest, workdir: str) -> None:
    reply = rest("POST", "/v1/sandboxes", {"workdir": workdir}, wait=10)
    assert (reply.status, reply.code) == (400, "client.bad_spec")


def test_an_unknown_image_is_named_with_those_there_are(rest: Rest) -> None:
    reply = rest("POST", "/v1/sandboxes", {"image": "/etc"})
    assert (reply.status, reply.code) == (400, "client.unknown_image")
    assert "host" in reply.json["hint"]


def test_an_id_that_is_taken(rest: Rest) -> None:
    rest.make(id="mine")
    assert rest("POST", "/v1/sandboxes", {"id": "mine"}).code == "client.id_taken"


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
