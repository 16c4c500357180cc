"""Processes that the agent has started and waits for: commands, and children that do file operations."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial

from .connection import Connection
from .ground import Ground
from .kinds import Any, NoReturn
from .loop import Loop
from .problem import Problem
from .request import Request
from .transfer import Operation, serve

Ended = Callable[[int, Any], None]  # gets the wait status and what was used


class Children:
    def __init__(self, loop: Loop, ground: Ground, workdir: str):
        self._loop, self._ground, self._workdir = loop, ground, workdir
        self.known: dict[int, tuple[int, Ended]] = {}
        self.leaders: set[int] = set()  # those among them that are commands
        self.lent: dict[int, str] = {}  # those among them that carry a connection, and what for

    def lead(self, pid: int, ended: Ended) -> None:
        """As `expect`, for the first process of a command."""
        self.leaders.add(pid)
        self.expect(pid, ended)

    def expect(self, pid: int, ended: Ended) -> None:
        """Call `ended` when this child is dead: its end is told by the kernel, never guessed from its output."""
        try:
            handle = os.pidfd_open(pid)
        except OSError:  # a kernel without them: see `adopt_orphans`
            self.known[pid] = -1, ended
            return
        self.known[pid] = handle, ended
        self._loop.watch(handle, partial(self._collect, pid))

    def left_nobody(self) -> bool:
        """Certain that no command which has ended left anything running."""
        return self._ground.nobody_left(self.known, len(self.leaders))

    def reap(self) -> None:
        """Collect whoever has died already."""
        for pid in tuple(self.known):
            self._collect(pid)

    def _collect(self, pid: int) -> None:
        dead, status, usage = os.wait4(pid, os.WNOHANG)
        if dead:
            handle, ended = self.known.pop(pid)
            self.leaders.discard(pid)
            if handle >= 0:
                self._loop.unwatch(handle)
                os.close(handle)
            ended(status, usage)

    def adopt_orphans(self) -> None:
        """Collect those as well whose parents have died, as the first process of a container must."""
        reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)

        def woken() -> None:
            os.read(reading, 4096)
            while True:
                try:
                    found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                except ChildProcessError:
                    return
                if found is None:
                    return
                self._collect(found.si_pid) if found.si_pid in self.known else os.waitpid(found.si_pid, 0)

        self._loop.watch(reading, woken)

    def lend(self, connection: Connection, request: Request, operation: Operation, *needed: int) -> None:
        """A child takes the connection, does a file operation, answers, and gives it back by its end.

        It has the descriptors `needed` besides.
        """
        ahead = connection.hand_over(everything=request.streamed)
        try:
            pid = os.fork()
        except OSError as error:  # the workload is as many as it may be, and we count as one of it
            text = f"no process can be started in the sandbox: {error.strerror}"
            connection.refuse(Problem(409, "workload.pid_limit", text, "model"))
            return
        if pid == 0:
            self._become(connection.sock, request, operation, ahead, needed)
        self.lent[pid] = request.parts[1]

        def ended(status: int, usage: Any) -> None:
            del self.lent[pid]
            connection.take_back(status == 0)

        self.expect(pid, ended)

    def end_lent(self, places: Collection[str] | None = None) -> None:
        """Those that carry connections, for some of `places` only."""
        for pid, place in self.lent.items():
            if places is None or place in places:
                os.kill(pid, signal.SIGKILL)  # ours, and not yet collected

    def _become(
        self, sock: socket.socket, request: Request, operation: Operation, ahead: bytes, needed: tuple[int, ...]
    ) -> NoReturn:
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)  # an end that is no success
            self._ground.drop()
            close_all_but({sock.fileno(), *needed})
            code = 0 if serve(operation, request, sock, ahead, self._workdir) else 1
        except BaseException as error:  # noqa: BLE001 - last stop before the child would run the agent's loop
            with suppress(OSError):
                sys.stderr.write(f"{type(error).__name__}: {error}\n")
        os._exit(code)


def close_all_but(kept: Collection[int], beyond: int = 0) -> None:
    """In a fork: what belongs to others, who would not see its end while we live; up to `beyond`, or to the last."""
    edges = sorted({2, *kept})
    for low, high in zip(edges, [*edges[1:], beyond or _beyond()]):  # noqa: B905 - older Pythons have no `strict`
        os.closerange(low + 1, high)


def _beyond() -> int:
    """A number above all descriptors; where it is not known, one that only a quick `closerange` bears."""
    try:
        return max(map(int, os.listdir("/proc/self/fd"))) + 1
    except (OSError, ValueError):
        return 1 << 20
