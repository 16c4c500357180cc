"""Where the commands of a local sandbox run: what the agent needs to know, kept where nothing inside can reach it.

A ground is made in a fork of the spawner, while cgroups and the host's /proc can still be opened by name; then `enter`
moves that process to where its commands are to be.
"""

import mmap
import os
import resource
import select
import signal
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any, NamedTuple

from ...agent.ground import Ground
from ...agent.members import Members, by_namespace, opened, text
from . import kernel
from .cgroups import Group

KINDS = kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS | kernel.CLONE_NEWIPC | kernel.CLONE_NEWUTS
SUBREAPER = 36
STRIKES, STRIKE_S = 40, 0.1
SPARE, SPARE_OURS = 16, 64  # processes beyond the limit: then we see that it was overstepped, and still start our own
OOM_SCORE = b"300"  # when the whole machine runs out of memory, a command goes before the driver does


class Bounds(NamedTuple):
    memory: int  # bytes, 0: none
    pids: int  # 0: none


class Fenced(Ground):
    """Beside the agent, as this user, in cgroups: the tier without isolation."""

    def __init__(self, group: Group, bounds: Bounds):
        super().__init__()
        self._group, self._bounds = group, bounds
        self._outer = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        group.hold()

    def needs(self) -> set[int]:
        """Descriptors that must stay open."""
        return {self._outer, self.members.proc, *self._group.descriptors()}

    def enter(self) -> None:
        """Orphans come to us: the kernel says whether a command has left anybody."""
        kernel.prctl(SUBREAPER, 1)
        self.adopts = True

    def spawn(self, path: str, argv: list[Any], env: dict[str, str], actions: list[Any]) -> int:
        """The new process begins its life in the sandbox's cgroups, since we are in them for that moment."""
        try:
            self._group.join()
            pid = super().spawn(path, argv, env, actions)
        finally:
            self._group.leave()
        with suppress(OSError):
            fd = os.open(f"{pid}/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC, dir_fd=self._outer)
            os.write(fd, OOM_SCORE)
            os.close(fd)
        return pid

    def counters(self) -> tuple[int, int]:
        return self._group.counter("oom"), self._group.counter("refused")

    def freeze(self, frozen: bool) -> None:
        self._group.freeze(frozen)

    def overstepped(self) -> str:
        """The memory cgroup holds the (in-memory) disk as well; within its limit, the processes' own share counts."""
        most = self._bounds.memory
        if most and self._group.counts("memory"):
            return "oom" if min(self._group.counter("charged"), self._group.counter("processes")) > most else ""
        return ""


class Inside(Fenced):
    """In the namespaces of a sandbox, but not among its processes: unseen from inside, and out of reach."""

    def __init__(self, group: Group, bounds: Bounds, way: "Way"):
        super().__init__(group, bounds)
        os.close(self.members.proc)
        self.members, self._way, self._beats = Members(way.proc, by_namespace), way, 0
        self._wanted = os.stat("1/ns/pid", dir_fd=way.proc).st_ino
        self._most = 0 if group.counts("pids") or not kernel.counts_processes_by_namespace() else bounds.pids

    def needs(self) -> set[int]:
        return super().needs() | {self._way.init, self._way.changes}

    def enter(self) -> None:
        """For good: children are born inside, and whatever becomes a program there has no privilege left."""
        spawner = os.getppid()
        kernel.setns(self._way.init, self._way.kinds)
        kernel.forget_keys()
        kernel.keep_privileges_from_programs()
        kernel.die_with_parent(signal.SIGKILL)
        kernel.hide_memory()
        os.umask(0o022)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if self._most:
            self._bound(SPARE_OURS)
        if self._way.calls:
            kernel.refuse_calls(self._way.calls)
        if os.getppid() != spawner:
            os._exit(0)

    def mark(self, env: dict[str, str]) -> int:
        """A cgroup namespace: inherited by all that the command starts, and nothing inside has the power to leave."""
        kernel.unshare(kernel.CLONE_NEWCGROUP)
        return os.stat("self/ns/cgroup", dir_fd=self._outer).st_ino

    def spawn(self, path: str, argv: list[Any], env: dict[str, str], actions: list[Any]) -> int:
        self._beat()
        try:
            if self._most:
                self._bound(SPARE, hard=False)
            pid = super().spawn(path, argv, env, actions)
        finally:
            if self._most:
                self._bound(SPARE_OURS, hard=False)
            self._beat()
        if self._most:
            with suppress(OSError):
                resource.prlimit(pid, resource.RLIMIT_NPROC, (self._most + SPARE, self._most + SPARE))
        return pid

    def _bound(self, spare: int, *, hard: bool = True) -> None:
        """What we start from now on is born with it: a program may multiply before it could be given a limit."""
        high = resource.getrlimit(resource.RLIMIT_NPROC)[1]
        soft = self._most + spare if high == resource.RLIM_INFINITY else min(self._most + spare, high)
        resource.setrlimit(resource.RLIMIT_NPROC, (soft, soft if hard else high))

    def _beat(self) -> None:
        """While a new process has not become its program we stand still; the spawner sees if that lasts."""
        self._beats += 1
        self._way.pulse[:8] = self._beats.to_bytes(8, "little")

    def gone(self) -> bool:
        """Its first process has no memory any more: it is ending, and takes all others with it."""
        try:
            return text("1/statm", self._way.proc).startswith("0 ")
        except OSError:
            return True

    def full(self) -> bool:
        return bool(self._way.disk) and os.fstatvfs(self._way.changes).f_bavail == 0

    def overstepped(self) -> str:
        most, count = self._bounds.memory, self._bounds.pids
        if count and not self._group.counts("pids") and len(self.members.everyone()) > count:
            return "pid_limit"
        if most and not self._group.counts("memory") and self.members.resident() > most:
            return "oom"
        return super().overstepped()

    def nobody_left(self, known: Collection[int], leaders: int) -> bool:
        """Only commands are in the group, and each that still runs is in it with one task at least."""
        return self._group.tasks() == leaders

    def kill_everyone(self) -> None:
        """All processes of the sandbox but its first, at one stroke."""
        strike(self._way.proc, lambda: kill_all_here(self._wanted))

    def drop(self) -> None:
        kernel.drop_privileges()

    def scratch(self) -> int:
        """Counts as the sandbox's disk, but is not to be seen there."""
        return os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600, dir_fd=self._way.changes)


class Way(NamedTuple):
    """Into one sandbox: a pidfd of its first process, its /proc and its changes as descriptors."""

    init: int
    kinds: int
    proc: int
    changes: int
    disk: int  # bytes, 0: no limit
    calls: bytes  # the filter of system calls, see `seccomp`; empty: none
    pulse: mmap.mmap  # eight bytes, seen by the spawner: odd while a process is being started


def kill_all_here(wanted: int) -> None:
    """Everybody in this pid namespace, never from a place where that would mean this machine."""
    if os.stat("/proc/self/ns/pid").st_ino == wanted != kernel.OWN_PID_NAMESPACE:
        os.kill(-1, signal.SIGKILL)


def kill_all_of(init: int, proc: int) -> None:
    """All processes of a sandbox but its first, from outside; `proc` is their /proc."""

    def strike_inside() -> None:
        wanted = os.stat("1/ns/pid", dir_fd=proc).st_ino
        kernel.setns(init, kernel.CLONE_NEWPID)

        def inside() -> None:
            kernel.setns(init, KINDS)  # for the sight of its own /proc
            kill_all_here(wanted)

        strike(proc, inside)

    pid = os.fork()
    if pid == 0:
        with suppress(BaseException):
            strike_inside()
        os._exit(0)
    os.waitpid(pid, 0)


def strike(proc: int, inside: Callable[[], None]) -> None:
    """Run `inside`, which ends everybody, in a fork that they can see, and so stop or end before it has done its work.

    Therefore they are also ended one by one, from out here where none of them reaches us. `proc` is their /proc.
    """
    for _ in range(STRIKES):
        pid = os.fork()
        if pid == 0:
            with suppress(BaseException):
                inside()
                os._exit(0)
            os._exit(1)
        handle, poll = os.pidfd_open(pid), select.poll()  # `select` knows no descriptor above 1023
        poll.register(handle, select.POLLIN)
        ended = poll.poll(STRIKE_S * 1000)
        os.close(handle)
        if not ended:
            _end_by_name(proc)
            os.kill(pid, signal.SIGKILL)
        if os.waitpid(pid, 0)[1] == 0:
            return


def _end_by_name(proc: int) -> None:
    with opened(".", proc) as listing:
        for name in os.listdir(listing):
            if name.isdigit() and name != "1":
                with suppress(OSError), opened(name, proc) as handle:
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
