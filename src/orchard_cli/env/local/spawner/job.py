"""One command in one sandbox, from fork to result."""

import json
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol

from . import kernel
from .cgroups import Group
from .enter import Door, Plan, become
from .loop import Loop, Timer
from .members import Members
from .streams import Stream

GRACE_OUTPUT = 0.05  # seconds that late output of children may still take after the leader has ended
GRACE_TERM = 0.5  # seconds between SIGTERM and SIGKILL
KILL_ROUNDS = 40


class Home(Protocol):
    """What a job needs to know of its sandbox."""

    door: Door
    members: Members
    group: Group
    full: Callable[[], bool]  # no room left for files

    def kill_everyone(self) -> None: ...

    def adopt(self, streams: list[Stream]) -> None:
        """Go on emptying the output of processes that were left running."""
        ...


Done = Callable[["Job"], None]


class Job:
    """Started at once; calls `done` exactly once, when `result` or `fault` is set."""

    def __init__(self, loop: Loop, home: Home, plan: Plan, done: Done, *, timeout: float, cap: int, merge: bool):
        self.result: dict[str, Any] = {}
        self.fault: dict[str, Any] | None = None
        self._loop, self._home, self._done = loop, home, done
        self._began = time.monotonic()
        self._mark, self._said = 0, b""
        self._killed_for = ""
        self._status: int | None = None  # wait status of the leader
        self._timers: list[Timer] = []
        self._oom, self._refused = home.group.oom_kills(), home.group.pid_refusals()
        self._start(plan, cap, merge)
        self._timers.append(loop.after(timeout, lambda: self.stop("timeout")))

    def _start(self, plan: Plan, cap: int, merge: bool) -> None:
        pipes = [os.pipe2(os.O_CLOEXEC) for _ in range(2 if merge else 3)]
        status, out, err = pipes[0], pipes[1], pipes[-1]
        plan = replace(plan, stdout=out[1], stderr=err[1])
        self.pid = _fork_into(self._home.door, plan, status[1])
        for _, end in pipes:
            os.close(end)
        self._pidfd = os.pidfd_open(self.pid)
        self._report = status[0]
        self.streams = [Stream(read, cap) for read, _ in pipes[1:]]
        os.set_blocking(self._report, False)
        self._loop.watch(self._pidfd, self._leader_ended)
        for stream in self.streams:
            self._loop.watch(stream.fd, lambda stream=stream: self._readable(stream))  # type: ignore[misc]

    def mark(self) -> int:
        """Identity of all that this command started; 0 while the child is still on its way."""
        self._read_report()
        return self._mark

    def _readable(self, stream: Stream) -> None:
        stream.read()
        if not stream.open:
            self._loop.unwatch(stream.fd)
            self._maybe_finish()

    def _leader_ended(self) -> None:
        self._loop.unwatch(self._pidfd)
        _, self._status = os.waitpid(self.pid, 0)
        os.close(self._pidfd)
        if not self._killed_for:
            self._cancel_timers()
        for stream in self.streams:
            if stream.open:
                stream.read(rounds=64)
        self._maybe_finish()
        if self._status is not None and not self._killed_for and self._timers == []:
            self._timers.append(self._loop.after(GRACE_OUTPUT, self._finish))

    def _maybe_finish(self) -> None:
        if self._status is None or any(stream.open for stream in self.streams):
            return
        if not self._killed_for:
            self._finish()

    # -- ending it early

    def stop(self, reason: str) -> None:
        """End everything that the command started: TERM, a grace, KILL. The sandbox goes on."""
        if self._killed_for or not self._alive():
            return
        self._killed_for = reason
        self._cancel_timers()
        self._signal(signal.SIGTERM)
        self._await_end(time.monotonic() + GRACE_TERM)

    def kill(self, reason: str) -> None:
        if not self._alive():
            return
        self._killed_for = reason
        self._cancel_timers()
        self._kill_round(0)

    def _alive(self) -> bool:
        return not self.result and self.fault is None

    def _await_end(self, until: float) -> None:
        if self._ended():
            self._finish()
        elif time.monotonic() >= until:
            self._kill_round(0)
        else:
            self._timers = [self._loop.after(0.01, lambda: self._await_end(until))]

    def _kill_round(self, count: int) -> None:
        if count and self._ended():
            self._finish()
            return
        if count >= KILL_ROUNDS:
            self._home.kill_everyone()  # something inside multiplies faster than we can name it
        group = self._home.group
        frozen = group.freeze(True)
        self._signal(signal.SIGKILL)
        if frozen:
            group.freeze(False)
        self._timers = [self._loop.after(0.002 if count < 5 else 0.02, lambda: self._kill_round(count + 1))]

    def _signal(self, number: int) -> None:
        hit = self._home.members.send(self.mark(), number)
        if self._status is None and not hit:
            signal.pidfd_send_signal(self._pidfd, number)

    def _ended(self) -> bool:
        return self._status is not None and not self._home.members.pids(self.mark())

    # -- the result

    def _cancel_timers(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers = []

    def _finish(self) -> None:
        if not self._alive():
            return
        self._cancel_timers()
        for stream in self.streams:
            self._loop.unwatch(stream.fd)
            if stream.open:
                stream.read(rounds=64)
        self._read_report()
        os.close(self._report)
        left = () if self._killed_for or self.fault else self._home.members.pids(self._mark)
        if self.fault is None:
            self.result = self._describe(left)
        still_open = [stream for stream in self.streams if stream.open]
        for stream in self.streams:
            if not (left and stream.open):
                os.close(stream.fd)
        if left and still_open:
            self._home.adopt(still_open)
        self._done(self)

    def _read_report(self) -> None:
        """Lines of the child: its mark, then a fault if it did not become the program."""
        with suppress(BlockingIOError):
            self._said += os.read(self._report, 65536)
        for line in self._said.splitlines():
            if line.startswith(b"{") and self._status is not None:
                self.fault = json.loads(line)
            elif line.isdigit():
                self._mark = int(line)

    def _describe(self, left: tuple[int, ...]) -> dict[str, Any]:
        status = self._status if self._status is not None else 0
        code = os.waitstatus_to_exitcode(status)
        reason = self._reason(code)
        return {
            "exit_code": code if reason == "exited" else None,
            "signal": -code if reason == "signaled" else None,
            "reason": reason,
            "wall_s": time.monotonic() - self._began,
            "seen": [stream.keep.seen for stream in self.streams],
            "left_running": list(left),
        }

    def _reason(self, code: int) -> str:
        if self._killed_for:
            return self._killed_for
        if code == 0:
            return "exited"
        group = self._home.group
        if code in (-9, 137) and group.oom_kills() > self._oom:
            return "oom"
        if group.pid_refusals() > self._refused:
            return "pid_limit"
        if self._home.full():
            return "disk_quota"
        return "signaled" if code < 0 else "exited"


def _fork_into(door: Door, plan: Plan, status: int) -> int:
    """Fork a child that lives in the sandbox's pid namespace while staying ours to wait for."""
    if door.init < 0 or not plan.inside:
        pid = os.fork()
        if pid == 0:
            become(door, plan, status)
        return pid
    kernel.setns(door.init, kernel.CLONE_NEWPID)
    try:
        pid = os.fork()
        if pid == 0:
            become(door, plan, status)
        return pid
    finally:
        kernel.setns(kernel.OWN, kernel.CLONE_NEWPID)
