"""A spawner that outlived the driver that started it: not our child, but ours to talk to and to end."""

import os
import select
import signal
import socket
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import IO, Protocol

from ...errors import ConfigError
from ..wire import reach
from .spawner.succession import CRED, NAME, TAKEN

ANSWER_S = 60.0  # on a busy machine, and while it ends what a sandbox has left


class Process(Protocol):
    """As much of `subprocess.Popen` as a link needs."""

    @property
    def pid(self) -> int: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def kill(self) -> None: ...


class Elder:
    """A process by its descriptor, which no other process can come to bear."""

    def __init__(self, pid: int):
        self.pid = pid
        self._fd = os.pidfd_open(pid)

    def wait(self, timeout: float | None = None) -> int:
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        if not poll.poll(None if timeout is None else int(timeout * 1000)):
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
        return 0

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._fd, signal.SIGKILL)

    def __del__(self) -> None:
        os.close(self._fd)


def held_elsewhere() -> ConfigError:
    text = "the sandboxes of this state folder are held by another server that lives"
    return ConfigError(text, hint="stop it, or give this one its own --state")


def silent() -> ConfigError:
    """Nobody may conclude that there is nothing: what runs there would be given up for good."""
    text = "what holds the sandboxes of this state folder does not answer"
    return ConfigError(text, hint="start again; or give this server its own --state")


def hand_over(base: Path, ends: list[int]) -> tuple[Process, IO[bytes]]:
    """Give our ends of a new link to the spawner of `base`; it, and what it wrote before it may die.

    Raises `OSError` where none listens, `ConfigError` where it has a living driver.
    """
    with socket.socket(socket.AF_UNIX) as door:
        door.settimeout(ANSWER_S)
        reach(door, str(base / NAME))
        pid = CRED.unpack(door.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CRED.size))[0]
        process = Elder(pid)
        socket.send_fds(door, [b"?"], ends)
        said, complaints, _, _ = socket.recv_fds(door, 1, 1, socket.MSG_CMSG_CLOEXEC)
    if said != TAKEN:
        raise held_elsewhere()
    return process, os.fdopen(complaints[0], "rb")
