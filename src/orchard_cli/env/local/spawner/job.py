"""One operation of our own in a child: a file system to compare, files to copy, a socket to open inside."""

import json
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ...agent.loop import Loop
from ...agent.output import Stream
from . import kernel
from .enter import Door, Plan, become

SAID_CAP = 1 << 16


class Job:
    """Started at once; calls `done` exactly once, when the child has ended. `fault` is what it says went wrong."""

    def __init__(
        self, loop: Loop, door: Door, plan: Plan, done: Callable[["Job"], None], *, timeout: float, cap: int = 4096
    ):
        self.exit_code = -1
        self.fault: dict[str, Any] | None = None
        self._loop, self._done = loop, done
        pipes = [os.pipe2(os.O_CLOEXEC) for _ in range(3)]
        try:
            self._pid = _fork_into(door, plan, pipes[0][1], (pipes[1][1], pipes[2][1]))
        except OSError:
            for read, _ in pipes:
                os.close(read)
            raise
        finally:
            for _, end in pipes:
                os.close(end)
        self._pidfd = os.pidfd_open(self._pid)
        report, output, errors = (read for read, _ in pipes)
        self._report, self.output, self.errors = Stream(report, SAID_CAP), Stream(output, cap), Stream(errors, SAID_CAP)
        self._streams = (self._report, self.output, self.errors)
        loop.watch(self._pidfd, self._ended)
        for stream in self._streams:
            self._watch(stream)
        self._timer = loop.after(timeout, self.kill)

    def kill(self) -> None:
        """It and what it started; `done` follows."""
        for end in (os.killpg, os.kill):  # one that goes by a detour leads no group
            with suppress(ProcessLookupError):
                end(self._pid, signal.SIGKILL)

    def _watch(self, stream: Stream) -> None:
        def readable() -> None:
            stream.read()
            if not stream.open:
                self._loop.unwatch(stream.fd)

        self._loop.watch(stream.fd, readable)

    def _ended(self) -> None:
        self._timer.cancel()
        self._loop.unwatch(self._pidfd)
        os.close(self._pidfd)
        _, status = os.waitpid(self._pid, 0)
        self.exit_code = os.waitstatus_to_exitcode(status)
        for stream in self._streams:
            while stream.open and stream.read(rounds=64):
                pass
            self._loop.unwatch(stream.fd)
            os.close(stream.fd)
        if said := self._report.keep.value():
            self.fault = json.loads(said)
        self._done(self)


def _fork_into(door: Door, plan: Plan, status: int, output: tuple[int, int]) -> int:
    """Fork a child that lives in the sandbox's pid namespace while staying ours to wait for."""
    inside = door.init >= 0 and plan.inside and not door.detour
    if inside:
        kernel.setns(door.init, kernel.CLONE_NEWPID)
    try:
        pid = os.fork()
        if pid == 0:
            become(door, plan, status, output)
        return pid
    finally:
        if inside:
            kernel.setns(kernel.OWN, kernel.CLONE_NEWPID)
