"""A port inside whose connections are carried over sockets from outside."""

import os
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from orchard_cli.env.contained.door import Door
from orchard_cli.errors import SandboxError

from ..conftest import children, settled
from .conftest import Place


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@pytest.fixture
def door(place: Place, tmp_path: Path, port: int) -> Iterator[Door]:
    opened = Door(tmp_path, place.channel, port)
    yield opened
    opened.close()
    opened.listener.close()


def dial(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=10)


def whole(sock: socket.socket) -> bytes:
    said = b""
    while piece := sock.recv(1 << 16):
        said += piece
    return said


def test_bytes_go_both_ways_and_each_side_ends_for_itself(door: Door, port: int) -> None:
    data = os.urandom(3_000_000)
    with dial(port) as inside, door.listener.accept()[0] as outside, ThreadPoolExecutor(2) as pool:
        outside.settimeout(10)
        heard = pool.submit(whole, outside)
        inside.sendall(data)
        inside.shutdown(socket.SHUT_WR)
        assert heard.result(10) == data  # the other direction is still open
        heard = pool.submit(whole, inside)
        outside.sendall(data[::-1])
        outside.shutdown(socket.SHUT_WR)
        assert heard.result(10) == data[::-1]


def test_one_that_takes_nothing_holds_up_no_other(door: Door, port: int) -> None:
    with dial(port) as stuck, door.listener.accept()[0]:
        stuck.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                stuck.send(bytes(1 << 16))
        with dial(port) as inside, door.listener.accept()[0] as outside:
            outside.sendall(b"beside")
            assert inside.recv(6) == b"beside"


def test_a_side_that_is_gone_ends_the_other(door: Door, port: int) -> None:
    with dial(port) as inside:
        door.listener.accept()[0].close()
        assert whole(inside) == b""
    with dial(port) as inside, door.listener.accept()[0] as outside:
        inside.close()
        outside.settimeout(10)
        assert whole(outside) == b""


def test_where_nobody_serves_it_a_connection_ends_at_once(door: Door, port: int) -> None:
    door.listener.close()
    for _ in range(3):
        with dial(port) as inside:
            assert whole(inside) == b""


def test_a_port_that_is_taken_is_told(place: Place, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(SandboxError) as caught:
        Door(tmp_path, place.channel, taken.getsockname()[1])
    assert (caught.value.fault.code, caught.value.fault.attributable) == ("workload.port_taken", "model")


def test_a_relay_that_was_killed_is_replaced(door: Door, place: Place, port: int) -> None:
    (relay,) = children(place.process.pid)
    os.kill(relay, 9)

    def again() -> bool:
        try:
            with dial(port) as inside, door.listener.accept()[0] as outside:
                outside.sendall(b"again")
                return inside.recv(5) == b"again"
        except OSError:
            return False

    door.listener.settimeout(1)
    assert settled(again, True) is True
    assert relay not in children(place.process.pid)


def test_with_its_door_closed_the_port_is_free(place: Place, tmp_path: Path, port: int) -> None:
    door = Door(tmp_path, place.channel, port)
    with dial(port):
        door.close()
        door.listener.close()
    assert settled(lambda: children(place.process.pid), []) == []
    socket.create_server(("127.0.0.1", port)).close()
    assert not any(thread.name == f"orchard-door-{port}" for thread in threading.enumerate())
