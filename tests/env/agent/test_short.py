"""An agent that is short of something: processes, descriptors, room on the disk. It says so, and lives on."""

import errno
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from orchard_cli.env.agent.agent import Agent
from orchard_cli.env.agent.ground import Ground
from orchard_cli.env.channel import Channel
from orchard_cli.errors import SandboxError

from .conftest import TOKEN, lost
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
