"""A real agent, packed into one file and started as a container would, and clients for it."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from orchard_cli.env.agent.pack import pack
from orchard_cli.env.channel import Channel
from orchard_cli.errors import SandboxError

from ..conftest import settled

TOKEN = "token-of-the-test"


@dataclass
class Place:
    """One agent: its process, its folder, a way to it."""

    process: subprocess.Popen[bytes]
    workdir: Path
    address: str
    channel: Channel

    def raw(self, data: bytes, *, token: str = TOKEN) -> bytes:
        """What the agent answers to these bytes, up to the end of the connection."""
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(10)
            sock.connect(self.address)
            sock.sendall(data.replace(b"TOKEN", token.encode()))
            said = b""
            while piece := sock.recv(65536):
                said += piece
            return said


def lost(effect: Literal["none", "complete", "unknown"]) -> SandboxError:
    return SandboxError("the agent is gone", code="infra.agent_lost", effect=effect)


def start(folder: Path) -> Place:
    """The socket lies outside of the work directory, as a workload's would."""
    file, address, workdir = folder / "agent.pyz", str(folder / "s"), folder / "work"
    workdir.mkdir(exist_ok=True)
    file.write_bytes(pack())
    command = [sys.executable, "-I", "-S", "-E", str(file), "--socket", address, "--sandbox", "box"]
    process = subprocess.Popen(
        [*command, "--workdir", str(workdir)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd="/",
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "FROM_IMAGE": "yes"},
    )
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(TOKEN.encode() + b"\n")
    process.stdin.close()
    assert process.stdout.readline() == b"ready\n"
    return Place(process, workdir, address, Channel(address, "box", TOKEN, lost))


def stop(place: Place) -> None:
    place.channel.close()
    place.process.terminate()
    assert place.process.wait(10) == 0
    assert place.process.stdout is not None
    place.process.stdout.close()


@pytest.fixture(scope="module")
def shared_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    place = start(tmp_path_factory.mktemp("agent"))
    yield place
    stop(place)


@pytest.fixture
def place(shared_place: Place) -> Iterator[Place]:
    """The same agent for the tests of a file, with an audit of its descriptors and children."""
    before = _holds(shared_place)
    yield shared_place
    assert settled(lambda: _holds(shared_place), before) == before


def _holds(place: Place) -> tuple[int, str]:
    root = Path(f"/proc/{place.process.pid}")
    links = []
    for path in () if os.geteuid() else (root / "fd").iterdir():  # an agent hides them from its equals
        with suppress(FileNotFoundError):
            links.append(str(path.readlink()))
    kept = [link for link in links if not link.startswith("socket:")]
    return len(kept), (root / f"task/{place.process.pid}/children").read_text()
