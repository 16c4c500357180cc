"""The model socket: one endpoint, the key added outside, answers as they come."""

import http.client
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from orchard_cli.env.network.endpoint import ModelEndpoint
from orchard_cli.env.network.model import Redactor
from orchard_cli.env.network.network import Gate, Network
from orchard_cli.errors import ConfigError

from ..conftest import settled
from .conftest import FAR, Echo, Site, dial, get, heard, status, talk

KEY = "sk-secret-0123456789"


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODEL_KEY", KEY)


Socket = Callable[..., Gate]


@pytest.fixture
def model(network: Network, site: Site) -> Socket:
    def open_socket(base: str = "", **more: object) -> Gate:
        endpoint = ModelEndpoint(base or f"http://{FAR}:{site.port}/v1", "MODEL_KEY", **more)  # type: ignore[arg-type]
        return network.model(socket.create_server(("127.0.0.1", 0)), "box", endpoint)

    return open_socket


def post(gate: Gate, headers: Mapping[str, str] | None = None) -> tuple[int, bytes]:
    client = http.client.HTTPConnection(*gate.address, timeout=10)
    client.request("POST", "/v1/chat/completions", b'{"model": "m"}', dict(headers or {}))
    answer = client.getresponse()
    said = answer.read()
    client.close()
    return answer.status, said


def test_the_key_is_added_outside_and_never_comes_back(model: Socket, site: Site) -> None:
    gate = model(headers=(("X-Attempt", "7"),))
    headers = {"Authorization": "Bearer mine", "X-Api-Key": "mine", "X-Attempt": "8", "Cookie": "c", "X-Mine": "1"}
    answered, said = post(gate, headers)
    assert answered == 200 and KEY.encode() not in said  # the server echoes every header
    (seen,) = site.seen
    assert seen["path"] == "/v1/chat/completions" and seen["body"] == '{"model": "m"}'
    got = {key.lower(): value for key, value in seen["headers"].items()}  # type: ignore[attr-defined]
    assert got["authorization"] == f"Bearer {KEY}" and got["x-attempt"] == "7" and got["x-mine"] == "1"
    assert got["host"] == f"{FAR}:{site.port}" and not {"x-api-key", "cookie"} & set(got)
    assert json.loads(said)["headers"]["authorization"] == "Bearer " + "*" * len(KEY)


@pytest.mark.parametrize("auth", ["x-api-key", "api-key"])
def test_the_key_in_another_header(model: Socket, site: Site, auth: str) -> None:
    assert post(model(auth=auth))[0] == 200
    got = {key.lower(): value for key, value in site.seen[0]["headers"].items()}  # type: ignore[attr-defined]
    assert got[auth] == KEY and "authorization" not in got


CALLS = [
    ("POST", "/v1/chat/completions?x=1"),
    ("POST", "/v1/responses"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/a/b"),
]


@pytest.mark.parametrize(("method", "path"), CALLS)
def test_calls_of_a_model_pass(model: Socket, site: Site, method: str, path: str) -> None:
    assert status(talk(model(), get(path, method=method))) == 200
    assert site.seen[0]["path"] == path


OTHERS = """/ /v1 /v1/ /v1/files /v1/models /chat/completions /v1/../admin /v1/chat/../files /v1/chat/completions/..
/v1/chat/completions/../../files /v1/%2e%2e/files /v1/chat%2fcompletions //v1/chat/completions /v1//chat/completions
/v1/chat/completions/ /v1/chat/completions/1 /v1/responses/resp_1 /v1/./chat/completions /v1\\chat\\completions
/v1/chat/completions;x /v1/chat/completions#x http://127.0.0.2/v1/chat/completions http://evil.test/v1/chat/completions
/v10/chat/completions /V1/chat/completions /v1/v1/files *"""


@pytest.mark.parametrize("path", OTHERS.split())
def test_nothing_else_can_be_asked_for(model: Socket, site: Site, network: Network, path: str) -> None:
    answer = talk(model(), get(path, method="POST"))
    assert status(answer) == 403, answer
    assert site.seen == [] and network.log.last()[0].verdict == "refused"


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "CONNECT"])
def test_other_methods_are_refused(model: Socket, site: Site, method: str) -> None:
    assert status(talk(model(), get("/v1/chat/completions", method=method))) == 403
    assert site.seen == []


def test_a_model_socket_is_no_proxy(model: Socket) -> None:
    assert status(talk(model(), b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org\r\n\r\n")) == 403


def test_calls_of_one_s_own(model: Socket, site: Site) -> None:
    gate = model(f"http://{FAR}:{site.port}", calls=("POST /v1/messages", "GET /x/*"))
    assert status(talk(gate, get("/v1/messages?beta=true", method="POST"))) == 200
    assert status(talk(gate, get("/x/y"))) == 200
    assert status(talk(gate, get("/x/"))) == status(talk(gate, get("/xy"))) == 403


class Stream(BaseHTTPRequestHandler):
    """Server-sent events, each only when the test says so."""

    protocol_version = "HTTP/1.1"
    go = threading.Semaphore(0)
    left = threading.Event()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        try:
            for number in range(100):
                self.go.acquire(timeout=10)
                event = b"data: %d\n\n" % number
                self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
        except OSError:
            self.left.set()

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def stream() -> Iterator[Site]:
    opened = Site(Stream)
    yield opened
    opened.close()


def test_events_come_one_by_one_and_a_client_that_leaves_ends_the_call(model: Socket, stream: Site) -> None:
    client = http.client.HTTPConnection(*model(f"http://{FAR}:{stream.port}/v1").address, timeout=10)
    client.request("POST", "/v1/chat/completions", b"{}")
    answer = client.getresponse()
    for number in range(3):
        Stream.go.release()  # the next event does not exist before the last has been read
        assert answer.readline() == b"data: %d\n" % number and answer.readline() == b"\n"
    answer.close()
    client.close()

    def noticed() -> bool:
        Stream.go.release()
        return Stream.left.wait(0.02)

    assert settled(noticed, True) is True


def test_calls_and_bytes_are_counted(model: Socket, network: Network) -> None:
    gate = model()
    for _ in range(3):
        post(gate)
    talk(gate, get("/v1/files", method="POST"))
    settled(lambda: len(network.log.last()), 4)
    assert gate.way.calls == 3  # type: ignore[union-attr]
    assert gate.way.meter.verdicts == {"allowed": 3, "refused": 1} and gate.way.meter.up > 300 < gate.way.meter.down
    assert KEY not in str(network.log.last()) and KEY not in repr(gate.way.endpoint)  # type: ignore[union-attr]


def test_tls_upstream_is_checked(network: Network, model: Socket, authority: trustme.CA, tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(FAR).configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    site = Site(Echo, context)
    try:
        base = f"https://{FAR}:{site.port}/v1"
        assert post(model(base, ca_file=str(tmp_path / "ca.pem")))[0] == 200
        refused, said = post(model(base))
        assert refused == 502 and b"cannot be reached" in said
    finally:
        site.close()


def test_an_endpoint_that_is_gone_is_a_failure(model: Socket, network: Network) -> None:
    with socket.create_server((FAR, 0)) as server:
        port = server.getsockname()[1]
    assert post(model(f"http://{FAR}:{port}/v1"))[0] == 502
    assert network.log.last()[0].verdict == "failed"


def test_what_is_no_endpoint_is_named(monkeypatch: pytest.MonkeyPatch, network: Network) -> None:
    for base in ("", "example.org", "ftp://x", "http://", "http://u:p@x/v1", "http://x/v1?k=1", "http://x/a b"):
        with pytest.raises(ConfigError, match="model|path"):
            ModelEndpoint(base)
    for wrong in ({"calls": ("GET",)}, {"headers": (("a b", "c"),)}, {"headers": (("a", "c\r\nd: e"),)}):
        with pytest.raises(ConfigError):
            ModelEndpoint("http://x/v1", **wrong)  # type: ignore[arg-type]
    monkeypatch.delenv("MODEL_KEY")
    with pytest.raises(ConfigError, match="MODEL_KEY holds no key"):
        network.model(socket.create_server(("127.0.0.1", 0)), "box", ModelEndpoint("http://x/v1", "MODEL_KEY"))


def test_two_calls_on_one_connection(model: Socket, site: Site) -> None:
    client = http.client.HTTPConnection(*model().address, timeout=10)
    for path in ("/v1/chat/completions", "/v1/completions"):
        client.request("POST", path, b"{}")
        assert client.getresponse().read()
    client.close()
    assert [seen["path"] for seen in site.seen] == ["/v1/chat/completions", "/v1/completions"]


def test_a_client_that_says_no_more_after_asking_is_taken_as_gone(model: Socket) -> None:
    with dial(model()) as wire:
        wire.sendall(get("/v1/models"))
        wire.shutdown(socket.SHUT_WR)
        heard(wire)  # an answer or none, but an end


@given(st.lists(st.sampled_from([b"s", b"k", b"-s", b"x", b"sk-s", b"k-sk-", b"sk-sk-s3"]), max_size=12))
def test_a_secret_is_taken_out_wherever_the_pieces_end(pieces: list[bytes]) -> None:
    redactor = Redactor(b"sk-s")
    out = b"".join([*map(redactor.feed, pieces), redactor.rest()])
    assert out == b"".join(pieces).replace(b"sk-s", b"****")


def test_a_stream_without_the_secret_is_not_held_back() -> None:
    redactor = Redactor(KEY.encode())
    assert redactor.feed(b"data: 1\n\n") == b"data: 1\n\n" and redactor.rest() == b""
    assert Redactor(b"").feed(b"abc") == b"abc"
