"""How long a server that says no is asked again."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import msgspec
import pytest

from orchard_cli.env.remote.client import Client
from orchard_cli.env.service.problem import problem
from orchard_cli.errors import SandboxError


def test_a_full_disk_is_told_soon() -> None:
    """In half a minute it is asked some twenty times; nobody wants to wait for that."""
    asked: list[str] = []
    full = SandboxError("no room", code="infra.disk_full", effect="none", retry="same")
    told = msgspec.json.encode(problem(full))

    class Full(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(507)
            self.send_header("Content-Type", "application/problem+json")
            self.send_header("Content-Length", str(len(told)))
            self.end_headers()
            self.wfile.write(told)

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Full) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        client = Client(f"http://127.0.0.1:{server.server_port}")
        with pytest.raises(SandboxError, match="no room"):
            client.ask("GET", "/v1/sandboxes")
        client.close()
        server.shutdown()
    assert 1 < len(asked) < 16
