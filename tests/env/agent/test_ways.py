"""A port inside whose connections are carried over sockets from outside."""

import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import cast

import pytest

from orchard_cli.env.channel import Channel
from orchard_cli.env.contained import door as door_module
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
    opened = Door(tmp_path, place.channel, port, lambda: True)
    yield opened
    opened.close()
    opened.listener.close()


def dial(port: int) -> socket.socket:
    """As soon as somebody listens: a child that is there may not do so yet."""
    until = time.monotonic() + 10
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=10)
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise
        time.sleep(0.01)


def whole(sock: socket.socket) -> bytes:
    said = bytearray()
    while piece := sock.recv(1 << 16):
        said += piece
    return bytes(said)


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
        Door(tmp_path, place.channel, taken.getsockname()[1], lambda: True)
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


class Starved:
    """A channel whose agent cannot start a way: once it is gone, once it has no room, once it does not answer."""

    def __init__(self, channel: Channel):
        self._channel = channel
        self.codes: list[str] = []

    def upgrade(self, path: str, *, query: Mapping[str, object], wait_s: float) -> socket.socket:
        if self.codes:
            raise SandboxError("not now", code=self.codes.pop())
        return self._channel.upgrade(path, query=query, wait_s=wait_s)


def test_a_way_that_cannot_be_made_for_a_while_comes_back(
    place: Place, tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door_module, "AGAIN_S", 0.01)
    starved, living = Starved(place.channel), [True]
    door = Door(tmp_path, cast(Channel, starved), port, lambda: living[0])
    starved.codes = ["infra.agent_lost", "workload.pid_limit", "infra.agent_silent", "workload.port_taken"]
    (relay,) = children(place.process.pid)
    os.kill(relay, 9)
    door.listener.settimeout(10)
    assert settled(lambda: len(set(children(place.process.pid)) - {relay}), 1) == 1 and not starved.codes
    with dial(port) as inside, door.listener.accept()[0] as outside:
        outside.sendall(b"again")
        assert inside.recv(5) == b"again"
    living[0] = False
    os.kill(children(place.process.pid)[0], 9)
    assert settled(lambda: door._thread.is_alive(), False) is False, "it waits for a sandbox that is gone"
    door.close()
    door.listener.close()


def test_with_its_door_closed_the_port_is_free(place: Place, tmp_path: Path, port: int) -> None:
    door = Door(tmp_path, place.channel, port, lambda: True)
    with dial(port):
        door.close()
        door.listener.close()
    assert settled(lambda: children(place.process.pid), []) == []
    socket.create_server(("127.0.0.1", port)).close()
    assert not any(thread.name == f"orchard-door-{port}" for thread in threading.enumerate())
