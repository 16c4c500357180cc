"""An agent that is short of something: processes, descriptors, room on the disk. It says so, and lives on."""

import errno
import fcntl
import os
import resource
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from orchard_cli.env.agent import hearing
from orchard_cli.env.agent.agent import SHORT_S, Agent
from orchard_cli.env.agent.feed import Feed
from orchard_cli.env.agent.ground import Ground
from orchard_cli.env.agent.launch import memory
from orchard_cli.env.agent.loop import Loop, Timer
from orchard_cli.env.agent.output import F_SETPIPE_SZ
from orchard_cli.env.channel import Channel
from orchard_cli.env.running import start
from orchard_cli.errors import SandboxError

from .conftest import TOKEN, lost
from .conftest import start as start_agent
from .conftest import stop as stop_agent
from .test_commands import fault_of


@pytest.fixture
def channel(tmp_path: Path) -> Iterator[Channel]:
    """To an agent in this process, in a thread of its own."""
    address = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        base = {"PATH": os.environ["PATH"]}
        agent = Agent(listener, Ground(), sandbox="box", token=TOKEN, workdir=str(tmp_path), base=base)
        thread = threading.Thread(target=agent.run, daemon=True)
        thread.start()
        channel = Channel(address, "box", TOKEN, lost)
        yield channel
        agent.loop.stop()
        with suppress(SandboxError):
            channel.ask("GET", "/v1/health", wait_s=5)
        channel.close()
        thread.join(10)
        for connection in tuple(agent._connections):
            connection.close()
        assert not thread.is_alive()


def test_without_a_process_for_it_a_transfer_is_refused(channel: Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left() -> int:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(os, "fork", none_left)
    refusal = ("workload.pid_limit", "model")
    assert fault_of(channel.ask, "GET", "/v1/list", query={"path": "."}) == refusal
    assert fault_of(channel.ask, "PUT", "/v1/files", bytes(4 << 20), query={"path": "f"}) == refusal
    assert fault_of(channel.upload, "/v1/tar", [bytes(1 << 20)] * 4, query={"path": "."}) == refusal
    assert channel.ask("GET", "/v1/health").status == 200


def test_a_spool_ends_where_the_disk_was_full_and_has_no_hole(monkeypatch: pytest.MonkeyPatch) -> None:
    room = iter((True, False, True))

    def write(fd: int, data: bytes) -> None:
        if not next(room):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.write(fd, data)

    monkeypatch.setattr(hearing, "write_all", write)
    spool = memory("spool", b"")
    heard = hearing.Hearing("out", None, spool, 100, lambda: None)
    for data in (b"one", b"two", b"three"):
        heard.add(data)
    assert os.pread(spool, 100, 0) == b"one"
    os.close(spool)


def test_a_spool_that_cannot_be_made_does_not_stop_the_command(
    channel: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(ground: Ground) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Ground, "scratch", full)
    running = start(channel, "echo said", spool_bytes=100)
    assert running.wait(10).stdout == b"said\n"
    assert fault_of(lambda: list(running.spooled())) == ("workload.disk_quota", "model")


def test_the_end_of_input_waits_for_room_in_a_terminal() -> None:
    read, write = os.pipe()
    size = fcntl.fcntl(write, F_SETPIPE_SZ, 4096)
    loop = Loop()
    feed = Feed(loop, write, tty=True)
    feed.add(bytes(size))
    feed.drained.append(loop.stop)
    feed.end()
    assert os.read(read, size) == bytes(size)
    loop.run()
    os.close(write)
    assert os.read(read, size) == b"\x04"
    os.close(read)


def test_no_command_takes_the_last_descriptors(tmp_path: Path) -> None:
    place = start_agent(tmp_path)
    resource.prlimit(place.process.pid, resource.RLIMIT_NOFILE, (100, 100))
    begun, refusals = [], []
    for _ in range(100):
        try:
            begun.append(start(place.channel, "exec sleep 60", stdin=None, timeout_s=60))
        except SandboxError as error:
            refusals.append(error.fault.code)
    assert begun and refusals == ["capacity.agent_busy"] * (100 - len(begun))
    for running in begun:
        running.cancel()
    assert {running.wait(20).reason for running in begun} == {"cancelled"}
    stop_agent(place)


def test_without_descriptors_an_agent_waits_for_them(tmp_path: Path) -> None:
    """It is not asked again and again for a visitor that it cannot let in."""
    calls = 0

    class Short(socket.socket):
        def accept(self) -> tuple[socket.socket, object]:
            nonlocal calls
            calls += 1
            if calls < 3:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return super().accept()

    with Short(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        agent = Agent(listener, Ground(), sandbox="box", token=TOKEN, workdir=str(tmp_path), base={})
        waits: list[float] = []
        later = agent.loop.after

        def after(seconds: float, call: Callable[[], None]) -> Timer:
            waits.append(seconds)
            return later(seconds, call)

        agent.loop.after = after  # type: ignore[method-assign]
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(tmp_path / "s"))
            client.sendall(f"GET /v1/health HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
            thread = threading.Thread(target=agent.run, daemon=True)
            thread.start()
            client.settimeout(10)
            assert client.recv(1 << 16).startswith(b"HTTP/1.1 200") and waits[:2] == [SHORT_S, SHORT_S]
            agent.loop.stop()
        thread.join(10)
        for connection in tuple(agent._connections):
            connection.close()
