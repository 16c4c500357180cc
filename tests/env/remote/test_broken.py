"""What breaks on the way is told as what it is; half of a thing is never taken for the whole."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from orchard_cli.env.remote.client import Client
from orchard_cli.env.remote.sandbox import RemoteSandbox
from orchard_cli.env.service.bodies import SandboxView
from orchard_cli.errors import SandboxError


class Server(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status: int, body: bytes, promised: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if promised is None else promised))
        self.end_headers()
        self.wfile.write(body)

    def body(self) -> bytes:
        """A chunked one."""
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def log_message(self, *_: object) -> None: ...


@contextmanager
def served(kind: type[Server]) -> Iterator[RemoteSandbox]:
    """A sandbox behind such a server."""
    with ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        client = Client(f"http://127.0.0.1:{server.server_port}", again_s=5.0)
        view = SandboxView("sb", "t", "ready", "host", "/w", {}, "none")
        yield RemoteSandbox(client, view, lambda _: pytest.fail("nothing is forked"), lambda _: None)
        client.close()
        server.shutdown()


def test_a_download_that_breaks_off_is_no_file() -> None:
    class Short(Server):
        def do_GET(self) -> None:
            self.answer(200, b"half", promised=8)
            self.close_connection = True

    with served(Short) as box, pytest.raises(SandboxError) as caught:
        list(box.fetch("f"))
    assert caught.value.fault.code == "infra.connection_lost"
