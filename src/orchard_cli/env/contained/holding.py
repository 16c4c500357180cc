"""The driver's end of the process that keeps contained sandboxes alive when the driver crashes: see `holder`."""

import os
import socket
import subprocess
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...errors import ConfigError, SandboxError
from ..local import leftovers
from ..local.bare import bare
from ..local.elder import Elder, Process, held_elsewhere, silent
from ..local.lasting import Lasting
from ..wire import reach
from . import holder

ANSWER_S, END_S = 60.0, 20.0
FILE = "holder"  # in the state folder: where the environment of the last driver lies
Left = tuple[dict[str, Any], socket.socket]  # what was told of a sandbox, and the socket that leads in
MAIN = "from env.contained.holder import main; main()"


class Holding:
    """Any thread may use it. Raises `SandboxError` when that process is gone."""

    def __init__(self, wire: socket.socket, process: Process):
        self._wire, self._process = wire, process
        self._lock = threading.Lock()
        wire.settimeout(ANSWER_S)

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, op: str, passage: socket.socket | None = None, **record: Any) -> dict[str, Any]:
        try:
            with self._lock:
                holder.send(self._wire, {"op": op, **record}, passage.fileno() if passage else -1)
                said = holder.receive(self._wire)[0]
        except (OSError, ValueError) as error:
            message = f"the process that keeps sandboxes beyond their server is gone: {error}"
            raise SandboxError(message, code="infra.spawner_lost", effect="none", hint="restart the server") from error
        if "refused" in said:
            message = f"the process that keeps sandboxes beyond their server does not keep this one: {said['refused']}"
            raise SandboxError(message, code="infra.not_kept", effect="none", hint="a higher limit of open files")
        return said

    def inherit(self, keep_s: float) -> tuple[dict[str, Any], list[Left]]:
        """What the driver before us said when it began, and all that it left."""
        told = self.ask("inherit", keep_s=keep_s)
        found = []
        for _ in range(told["boxes"]):
            record, fd = holder.receive(self._wire)
            found.append((record, socket.socket(fileno=fd)))
        return told["hello"], found

    def leave(self) -> None:
        """The next driver may come."""
        self._wire.close()

    def close(self) -> None:
        """Nobody is to take our place."""
        with suppress(SandboxError):
            self.ask("bye")
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._wire.close()


def begin() -> Holding:
    """A new one. It knows no folder yet: tell it by `hello`."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            bare(MAIN, str(theirs.fileno()), str(os.getpid())),
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the driver, which then closes us in order
            cwd="/",
            env={"LANG": "C.UTF-8"},
        )
    return Holding(ours, process)


def settle(lasting: Lasting | None, hello: dict[str, Any]) -> tuple[Holding | None, Path, list[Left]]:
    """Who keeps the sandboxes of a new environment, if they are to outlive us; its folder; and what is there already.

    Raises `ConfigError`.
    """
    found = find(lasting, hello) if lasting else None
    if found:
        leftovers.claim(found[1])
        return found
    holding = begin() if lasting and lasting.keep_s else None
    base = Path(tempfile.mkdtemp(prefix=leftovers.prefix(holding.pid if holding else 0)))
    if holding and lasting:
        leftovers.claim(base)
        try:
            holding.ask("hello", base=str(base), keep_s=lasting.keep_s, hello=hello)
        except SandboxError as error:
            leftovers.remove(base)
            raise ConfigError(str(error), hint="leave --outlive-s out") from error
    return holding, base, []


def find(lasting: Lasting, hello: dict[str, Any]) -> tuple[Holding, Path, list[Left]] | None:
    """The holder that an earlier driver left, its folder, and what it holds; None: there is none, or of another kind.

    What is of another kind (tier, version) is ended. Raises `ConfigError` if its driver still lives.
    """
    try:
        base = lasting.recall()
        holding = _meet(base)
    except (TimeoutError, BlockingIOError) as error:  # the latter: so many wait already
        raise silent() from error
    except OSError:
        return None
    said, left = holding.inherit(lasting.keep_s)
    if lasting.keep_s and said == hello:
        return holding, base, left
    _end(left)
    holding.close()
    leftovers.remove(base)
    lasting.forget()
    return None


def _meet(base: Path) -> Holding:
    """Raises `OSError` where none listens, `ConfigError` where it has a living driver."""
    door = socket.socket(socket.AF_UNIX)
    try:
        door.settimeout(ANSWER_S)
        reach(door, str(base / holder.NAME))
        credentials = door.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, holder.CRED.size)
        process = Elder(holder.CRED.unpack(credentials)[0])
        if door.recv(1) != holder.TAKEN:
            raise held_elsewhere()
    except BaseException:
        door.close()
        raise
    return Holding(door, process)


def _end(left: list[Left]) -> None:
    """Each agent sees its socket end, whoever else has it, and goes."""
    for _, passage in left:
        with suppress(OSError):
            passage.shutdown(socket.SHUT_WR)
    until = time.monotonic() + END_S
    for _, passage in left:
        with passage, suppress(OSError):
            passage.settimeout(max(0.1, until - time.monotonic()))
            while passage.recv(4096):
                pass
