"""A network with one gate, and servers beyond it: names end in .test and are looked up here, not by the machine."""

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address

import pytest
import trustme

from orchard_cli.env.network.addresses import Address
from orchard_cli.env.network.meter import Caps
from orchard_cli.env.network.network import Gate, Network
from orchard_cli.env.network.rules import policy

FAR = "127.0.0.2"  # where the servers are that a rule may open; 127.0.0.1 stays this machine's own


class Names:
    """A resolver that can lie: each name gives its lists of addresses one after the other."""

    def __init__(self) -> None:
        self.known: dict[str, list[list[str]]] = {}
        self.asked: list[str] = []

    def set(self, host: str, *answers: str | list[str]) -> None:
        self.known[host] = [[answer] if isinstance(answer, str) else answer for answer in answers]

    async def __call__(self, host: str, port: int) -> Sequence[Address]:
        self.asked.append(host)
        answers = self.known.get(host)
        if not answers:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return [ip_address(text) for text in (answers.pop(0) if len(answers) > 1 else answers[0])]


class Echo(BaseHTTPRequestHandler):
    """Says what it was asked."""

    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        body = self._chunks() if self.headers.get("transfer-encoding") else self.rfile.read(length)
        seen = {"method": self.command, "path": self.path, "headers": dict(self.headers), "body": body.decode()}
        self.server.seen.append(seen)  # type: ignore[attr-defined]
        said = json.dumps(seen).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(said if self.command != "HEAD" else b"")

    do_GET = do_POST = do_PUT = do_HEAD = answer

    def _chunks(self) -> bytes:
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def log_message(self, format: str, *args: object) -> None: ...


class Site:
    """A running server; `seen` are the requests that reached it."""

    def __init__(self, handler: type[BaseHTTPRequestHandler] = Echo, tls: ssl.SSLContext | None = None):
        self.server = ThreadingHTTPServer((FAR, 0), handler)
        self.server.seen = []  # type: ignore[attr-defined]
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # type: ignore[method-assign]
        if tls is not None:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=lambda: self.server.serve_forever(0.02), daemon=True)
        self.thread.start()

    @property
    def seen(self) -> list[dict[str, object]]:
        return self.server.seen  # type: ignore[attr-defined, no-any-return]

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def names() -> Names:
    return Names()


@pytest.fixture
def network(names: Names) -> Iterator[Network]:
    with Network(resolve=names) as opened:
        yield opened
        assert not opened.faults


Open = Callable[..., Gate]


@pytest.fixture
def opens(network: Network) -> Open:
    """`opens(*rules, kind="allowlist", **caps)`: a gate; `gate.port` is where it listens."""

    def open_gate(*rules: str, kind: str = "allowlist", sandbox: str = "box", **caps: float) -> Gate:
        listener = socket.create_server(("127.0.0.1", 0))
        return network.egress(listener, sandbox, policy(kind, rules), Caps(**caps))  # type: ignore[arg-type]

    return open_gate


def dial(gate: Gate) -> socket.socket:
    return socket.create_connection(gate.address, timeout=10)


def talk(gate: Gate, said: bytes) -> bytes:
    """Say it, then listen to the end."""
    with dial(gate) as wire:
        wire.sendall(said)
        return heard(wire)


def heard(wire: socket.socket) -> bytes:
    data = b""
    try:
        while piece := wire.recv(65536):
            data += piece
    except ConnectionResetError:
        data += b"<reset>"
    return data


def exactly(wire: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count and (piece := wire.recv(count - len(data))):
        data += piece
    return data


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/") else 0


def get(url: str, *headers: str, method: str = "GET") -> bytes:
    host = url.split("/")[2] if "//" in url else "x"
    lines = [f"{method} {url} HTTP/1.1", f"Host: {host}", "Connection: close", *headers, "", ""]
    return "\r\n".join(lines).encode()


def connect(target: str) -> bytes:
    return f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode()


def head_of(wire: socket.socket) -> bytes:
    """The head of an answer, byte by byte so that what follows stays."""
    data = b""
    while not data.endswith(b"\r\n\r\n") and (piece := wire.recv(1)):
        data += piece
    return data


@pytest.fixture
def site() -> Iterator[Site]:
    opened = Site()
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def trust(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


@pytest.fixture
def tls_site(authority: trustme.CA) -> Iterator[Site]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("site.test", "other.test").configure_cert(context)
    opened = Site(tls=context)
    yield opened
    opened.close()
