"""Children that carry a connection: they hold nobody else's, and neither direction waits for the other."""

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from orchard_cli.env.agent.loop import Loop
from orchard_cli.env.agent.pair import Pair

from ..conftest import children
from .conftest import TOKEN, Place
from .conftest import start as start_agent
from .test_commands import start
from .test_ways import whole

SIZE = 64 << 20


@pytest.fixture
def talker() -> Iterator[int]:
    """A port inside that says all it has before it listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            sock, _ = server.accept()
            with sock, suppress(ConnectionError):
                sock.sendall(bytes(SIZE))
                sock.sendall(b"heard %d" % len(whole(sock)))

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


def tunnel(place: Place, port: int) -> socket.socket:
    return place.channel.upgrade(f"/v1/ports/{port}", query={}, wait_s=10)


def test_neither_direction_waits_for_the_other(place: Place, talker: int) -> None:
    with tunnel(place, talker) as sock:
        sock.settimeout(20)

        def say() -> None:
            sock.sendall(bytes(SIZE))
            sock.shutdown(socket.SHUT_WR)

        speaker = threading.Thread(target=say, daemon=True)
        speaker.start()
        assert whole(sock)[SIZE:] == b"heard %d" % SIZE
        speaker.join()


def test_the_last_words_of_one_that_takes_no_more_are_given() -> None:
    (near, inside), (client, far) = socket.socketpair(), socket.socketpair()
    with near, inside, client, far:
        inside.sendall(b"too large")
        inside.close()
        client.sendall(b"x" * 1000)
        loop = Loop()
        Pair(loop, near, far, loop.stop)
        loop.run()
        client.settimeout(10)
        assert whole(client) == b"too large"


def test_input_that_is_closed_ends_while_a_connection_is_carried(place: Place) -> None:
    running = start(place.channel, "cat; echo end", stdin=None, timeout_s=10)
    with socket.create_server(("127.0.0.1", 0)) as silent, tunnel(place, silent.getsockname()[1]):
        running.close_stdin()
        assert running.wait().stdout == b"end\n"


def test_one_that_is_ended_from_inside_has_not_done_its_work(place: Place, talker: int) -> None:
    before = set(children(place.process.pid))
    with tunnel(place, talker) as sock:
        sock.settimeout(10)
        (pid,) = set(children(place.process.pid)) - before
        os.kill(pid, signal.SIGTERM)
        with suppress(ConnectionError):
            assert len(whole(sock)) < SIZE


def test_a_client_sees_the_end_of_its_agent_while_another_is_served(tmp_path: Path) -> None:
    place = start_agent(tmp_path)
    with socket.socket(socket.AF_UNIX) as other, socket.create_server(("127.0.0.1", 0)) as silent:
        other.connect(place.address)
        other.sendall(f"GET /v1/health HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
        assert other.recv(1 << 16).startswith(b"HTTP/1.1 200")
        with tunnel(place, silent.getsockname()[1]):
            place.process.kill()
            place.process.wait()
            other.settimeout(10)
            assert other.recv(1) == b""
    place.channel.close()
    assert place.process.stdout is not None
    place.process.stdout.close()
