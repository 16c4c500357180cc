"""One command in one sandbox, from fork to result."""

import json
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from . import kernel
from .cgroups import Group
from .enter import Door, Plan, become
from .loop import Loop
from .members import Members
from .streams import Sink, Stream

GRACE_OUTPUT = 0.05  # seconds that late output of children may still take after the leader has ended
GRACE_TERM = 0.5  # seconds between SIGTERM and SIGKILL
SWEEP_AFTER, GIVE_UP_AFTER = 40, 150  # rounds of killing by name


class Home(Protocol):
    """What a job needs to know of its sandbox."""

    @property
    def door(self) -> Door: ...

    @property
    def members(self) -> Members: ...

    @property
    def group(self) -> Group: ...

    @property
    def sink(self) -> Sink: ...

    def full(self) -> bool:
        """No room is left for files."""
        ...

    def kill_everyone(self) -> None: ...


class Job:
    """Started at once; calls `done` exactly once, when `result` or `fault` is set."""

    def __init__(
        self,
        loop: Loop,
        home: Home,
        plan: Plan,
        done: Callable[["Job"], None],
        *,
        timeout: float,
        cap: int,
        merge: bool = False,
    ):
        self.result: dict[str, Any] = {}
        self.fault: dict[str, Any] | None = None
        self.limited = plan.limited
        self._loop, self._home, self._done = loop, home, done
        self._began = time.monotonic()
        self._mark, self._said = plan.mark, b""
        self._over, self._killed_for = False, ""
        self._status: int | None = None  # wait status of the leader
        self._oom, self._refused = home.group.counter("oom"), home.group.counter("refused")
        self._start(plan, cap, merge)
        self._timer = loop.after(timeout, lambda: self.stop("timeout"))

    def _start(self, plan: Plan, cap: int, merge: bool) -> None:
        pipes = [os.pipe2(os.O_CLOEXEC) for _ in range(2 if merge else 3)]
        try:
            self._pid = _fork_into(self._home.door, plan, pipes[0][1], (pipes[1][1], pipes[-1][1]))
        except OSError:
            for read, _ in pipes:
                os.close(read)
            raise
        finally:
            for _, end in pipes:
                os.close(end)
        self._pidfd = os.pidfd_open(self._pid)
        self._report = pipes[0][0]
        os.set_blocking(self._report, False)
        self.streams = [Stream(read, cap) for read, _ in pipes[1:]]
        self._loop.watch(self._pidfd, self._leader_ended)
        for stream in self.streams:
            self._watch(stream)

    # -- while it runs

    def _watch(self, stream: Stream) -> None:
        if stream.open and not self._over:
            self._loop.watch(stream.fd, lambda: self._readable(stream))

    def _readable(self, stream: Stream) -> None:
        stream.read()
        if not stream.open:
            self._loop.unwatch(stream.fd)
            self._end_if_silent()
        elif stream.flooding:
            self._loop.unwatch(stream.fd)
            self._loop.after(0.001, lambda: self._watch(stream))

    def _leader_ended(self) -> None:
        self._loop.unwatch(self._pidfd)
        _, self._status = os.waitpid(self._pid, 0)
        os.close(self._pidfd)
        if self._over or self._killed_for:
            return
        self._timer.cancel()
        self._timer = self._loop.after(GRACE_OUTPUT, self._finish)
        self._read_rest()
        self._end_if_silent()

    def _end_if_silent(self) -> None:
        """The leader has ended and nobody holds its output any more: no need to wait for late words."""
        if self._status is not None and not self._killed_for and not any(s.open for s in self.streams):
            self._finish()

    # -- ending it early

    def stop(self, reason: str) -> None:
        """End everything that the command started: TERM, a grace, KILL. The sandbox goes on."""
        if self._begin_killing(reason):
            self._signal(signal.SIGTERM)
            self._await_end(time.monotonic() + GRACE_TERM)

    def kill(self, reason: str) -> None:
        """The same without grace."""
        if self._begin_killing(reason):
            self._kill_round(0)

    def _begin_killing(self, reason: str) -> bool:
        if self._over or self._killed_for or self._status is not None:
            return False
        self._killed_for = reason
        self._timer.cancel()
        return True

    def _await_end(self, until: float) -> None:
        if self._ended():
            self._finish()
        elif time.monotonic() >= until:
            self._kill_round(0)
        else:
            self._timer = self._loop.after(0.01, lambda: self._await_end(until))

    def _kill_round(self, count: int) -> None:
        if (count and self._ended()) or count > GIVE_UP_AFTER:
            self._finish()
            return
        if count > SWEEP_AFTER:
            self._home.kill_everyone()  # something inside multiplies faster than we can name it
        self._home.group.freeze(True)
        self._signal(signal.SIGKILL)
        self._home.group.freeze(False)
        self._timer = self._loop.after(0.002 if count < 5 else 0.02, lambda: self._kill_round(count + 1))

    def _signal(self, number: int) -> None:
        self._read_report()
        hit = self._home.members.send(self._mark, number) if self._mark else 0
        if self._status is None and not hit:
            signal.pidfd_send_signal(self._pidfd, number)

    def _ended(self) -> bool:
        self._read_report()
        return self._status is not None and not (self._mark and self._home.members.pids(self._mark))

    # -- the result

    def _finish(self) -> None:
        if self._over:
            return
        self._over = True
        self._timer.cancel()
        self._read_report()
        os.close(self._report)
        self._read_rest()
        known = self._killed_for or not self._mark or not self.limited or self._nobody_left()
        left = () if known else self._home.members.pids(self._mark)
        if self.fault is None:
            self.result = self._describe(left)
        for stream in self.streams:
            self._loop.unwatch(stream.fd)
            if not (left and stream.open):
                os.close(stream.fd)
        if left:
            self._home.sink.adopt([stream for stream in self.streams if stream.open])
        self._done(self)

    def _nobody_left(self) -> bool:
        """Nothing inside can leave its cgroup; without namespaces it can, and must be looked for."""
        return self._home.door.marks and self._home.group.empty()

    def _read_rest(self) -> None:
        for stream in self.streams:
            if stream.open:
                stream.read(rounds=64)

    def _read_report(self) -> None:
        """Lines of the child: its mark, then a fault if it did not become the program."""
        with suppress(BlockingIOError):
            self._said += os.read(self._report, 65536)
        for line in self._said.splitlines():
            if line.startswith(b"{") and not self._killed_for:
                self.fault = json.loads(line)
            elif line.startswith(b"=") and self._status is not None:
                self._status = int(line[1:])
            elif line.isdigit():
                self._mark = int(line)

    def _describe(self, left: tuple[int, ...]) -> dict[str, Any]:
        code = os.waitstatus_to_exitcode(self._status or 0)
        reason = self._killed_for or self._reason(code)
        return {
            "exit_code": code if reason == "exited" else None,
            "signal": -code if reason == "signaled" else None,
            "reason": reason,
            "wall_s": time.monotonic() - self._began,
            "seen": [stream.keep.seen for stream in self.streams],
            "left_running": list(left),
        }

    def _reason(self, code: int) -> str:
        """Why it ended: a limit counts only if the command itself failed."""
        if code == 0:
            return "exited"
        if code in (-9, 137) and self._home.group.counter("oom") > self._oom:
            return "oom"
        if self._home.group.counter("refused") > self._refused:
            return "pid_limit"
        if self._home.full():
            return "disk_quota"
        return "signaled" if code < 0 else "exited"


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
