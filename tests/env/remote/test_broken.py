"""What breaks on the way is told as what it is; half of a thing is never taken for the whole."""

import os
import select
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest

from orchard_cli.env.remote import RemoteEnv, sandbox
from orchard_cli.env.remote import env as remote
from orchard_cli.env.remote.client import Client
from orchard_cli.env.remote.sandbox import RemoteSandbox
from orchard_cli.env.remote.sent import Hashed
from orchard_cli.env.service.bodies import SandboxView
from orchard_cli.env.service.problem import problem
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


def test_an_empty_piece_is_not_the_end() -> None:
    came: list[bytes] = []

    class Takes(Server):
        def do_PUT(self) -> None:
            came.append(self.body())
            self.answer(201, b"{}")

    with served(Takes) as box:
        box.store("f", [b"one", b"", b"two"])
    assert came == [b"onetwo"]


def test_a_stream_goes_over_a_connection_that_still_stands() -> None:
    came: list[bytes] = []

    class Closes(Server):
        """A kept connection is closed unannounced, as after a time without a request."""

        def do_GET(self) -> None:
            self.answer(200, b"{}")
            self.close_connection = True

        def do_PUT(self) -> None:
            came.append(self.body())
            self.answer(201, b"{}")

    with served(Closes) as box:
        client = box._client
        client.ask("GET", "/")
        ear = select.poll()
        ear.register(client._idle[0].sock, select.POLLIN)
        assert ear.poll(10_000)  # the end has come
        box.store("f", [bytes(1 << 16)] * 32)
    assert len(came[-1]) == 32 << 16


def test_what_the_server_says_of_a_stream_is_told() -> None:
    full = SandboxError("no room", code="infra.disk_full", effect="none", retry="same")

    class Full(Server):
        def do_PUT(self) -> None:
            self.body()
            self.answer(507, msgspec.json.encode(problem(full)))

    with served(Full) as box, pytest.raises(SandboxError) as caught:
        box.store("f", [b"one"])
    assert caught.value.fault.code == "infra.disk_full"


@pytest.mark.parametrize("change", [-5, 5])
def test_a_file_that_changes_while_it_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: int) -> None:
    source = tmp_path / "f"
    source.write_bytes(bytes(10))
    seen: list[bytes] = []

    class Takes(Server):
        def do_PUT(self) -> None:
            seen.append(self.rfile.read(int(self.headers["Content-Length"])))
            with suppress(OSError):  # who sent it has gone
                self.answer(201, b'{"path":"f","bytes":10,"sha256":""}')

    class Later(Hashed):
        def seek(self, place: int) -> None:
            super().seek(place)
            os.truncate(source, 10 + change)

    monkeypatch.setattr(sandbox, "Hashed", Later)
    with served(Takes) as box, pytest.raises(SandboxError, match="changed") as caught:
        box.upload(source, "f")
    assert caught.value.fault.code == "client.hash_mismatch" and not box._client._idle


def test_a_lease_that_something_else_answers_for_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gateway's page, say: the thread that renews goes on."""
    asked = threading.Semaphore(0)

    class Gateway(Server):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.answer(200, b"<html>try later</html>")
            asked.release()

    with served(Gateway) as box:
        env = RemoteEnv.__new__(RemoteEnv)
        env.client, env._open, env._lock = box._client, {"sb": box}, threading.Lock()
        monkeypatch.setattr(remote, "LEASE_S", 0.03)
        stop = threading.Event()
        renewing = threading.Thread(target=remote._renewing, args=(weakref.ref(env), stop))
        renewing.start()
        assert asked.acquire(timeout=10) and asked.acquire(timeout=10)
        stop.set()
        renewing.join()
