"""One sandbox: its file systems, its first process under bubblewrap, its jobs, its end."""

import json
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from . import kernel, roots
from .cgroups import MIB, Group
from .enter import Door
from .job import Job
from .loop import Loop, Timer
from .members import Members
from .streams import Stream

CREATE_DEADLINE = 20.0
KINDS = kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS | kernel.CLONE_NEWIPC | kernel.CLONE_NEWUTS
# The first process says that it stands, then collects the dead: each one interrupts its reading. It keeps one
# harmless capability that nothing else inside has, so that nothing inside can trace or end it.
INIT = "echo; exec >&-; while :; do read -r _; done"
PROC_READ_ONLY = ("/proc/sys",)  # we are the machine's root in the eyes of sysctl, whatever bubblewrap thinks
PROC_HIDDEN = ("/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sched_debug", "/proc/latency_stats")


@dataclass(frozen=True)
class Making:
    """What one sandbox is made from, resolved: descriptors and numbers."""

    id: str
    workdir: str
    root: int  # lower directory of /
    systems: Sequence[tuple[str, int]]  # (name below /, lower directory)
    tree: int  # lower directory of workdir
    binds: Sequence[tuple[str, str]]
    disk: int  # bytes, 0: no limit
    memory: int
    pids: int
    cpus: float
    network: bool


class Box:
    def __init__(self, loop: Loop, making: Making, base: str, group: Group, *, bwrap: Sequence[str], userxattr: bool):
        self.making, self.group, self.base = making, group, base
        self.jobs: set[Job] = set()
        self.dead = ""  # why it is gone
        self._loop, self._bwrap, self._userxattr = loop, bwrap, userxattr
        self._idle: list[Stream] = []
        self._drain: Timer | None = None
        self._monitor = self._init = self._proc = -1
        self._closing: list[Callable[[], None]] = []
        self.changes = self._mount_changes()

    # -- making it

    def _mount_changes(self) -> int:
        os.mkdir(self.base, 0o700)
        size = f"size={self.making.disk}," if self.making.disk else ""
        kernel.mount("tmpfs", self.base, "tmpfs", kernel.MS_NODEV | kernel.MS_NOSUID, f"{size}mode=0700")
        return os.open(self.base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def start(self, ready: Callable[[dict[str, Any] | None], None]) -> None:
        """Mount and start; `ready` gets None, or the fault."""
        root = f"{self.base}/root"
        os.mkdir(root)
        making = self.making
        roots.overlay(making.root, self.changes, "top", root, userxattr=self._userxattr)
        for name, lower in making.systems:
            self._layer(lower, name, f"/{name}")
        self._layer(making.tree, "work", making.workdir)
        roots.mount_binds(root, making.binds)
        for name in ("proc", "dev"):
            os.close(roots.point(root, name))
        self._spawn(root, ready)

    def _layer(self, lower: int, name: str, path: str) -> None:
        place = roots.point(f"{self.base}/root", path)
        try:
            roots.overlay(lower, self.changes, name, f"/proc/self/fd/{place}", userxattr=self._userxattr)
        finally:
            os.close(place)

    def _spawn(self, root: str, ready: Callable[[dict[str, Any] | None], None]) -> None:
        said, info = os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)
        lifeline, errors = os.pipe2(os.O_CLOEXEC), os.memfd_create("errors")
        self._lifeline = lifeline[1]
        network = () if self.making.network else ("--unshare-net",)
        hidden = [word for path in PROC_HIDDEN if os.path.exists(path) for word in ("--ro-bind", "/dev/null", path)]
        hidden += [word for path in PROC_READ_ONLY for word in ("--ro-bind", path, path)]
        argv = [*self._bwrap, *network, "--bind", root, "/", "--proc", "/proc", *hidden, "--dev", "/dev"]
        argv += ["--info-fd", "3", "--", "/bin/sh", "-c", INIT]
        ends = ((lifeline[0], 0), (said[1], 1), (errors, 2), (info[1], 3))
        # dup2 onto itself would leave close-on-exec set: move everything out of the way first.
        moved = [(os.dup(fd) if fd <= 3 else fd, target) for fd, target in ends]
        actions = [(os.POSIX_SPAWN_DUP2, fd, target) for fd, target in moved]
        env = {"PATH": "/usr/bin:/bin"}
        defaults = [signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
        self._monitor_pid = os.posix_spawn(argv[0], argv, env, file_actions=actions, setsigdef=defaults)
        self._monitor = os.pidfd_open(self._monitor_pid)
        for fd in (lifeline[0], said[1], info[1]):
            os.close(fd)
        self._loop.watch(self._monitor, self._monitor_ended)
        timer = self._loop.after(CREATE_DEADLINE, lambda: self._kill_monitor("did not start in time"))
        self._loop.watch(said[0], lambda: self._started(said[0], info[0], errors, timer, ready))

    def _started(self, said: int, info: int, errors: int, timer: Timer, ready: Callable[[Any], None]) -> None:
        stands = os.read(said, 1) == b"\n"
        timer.cancel()
        self._loop.unwatch(said)
        text = os.read(info, 4096) if stands else b""
        complaint = os.pread(errors, 4096, 0).decode(errors="replace").strip()
        for fd in (said, info, errors):
            os.close(fd)
        if not stands:
            ready({"code": "infra.create_failed", "message": f"bubblewrap: {complaint or self.dead or 'ended'}"})
            return
        init = json.loads(text)["child-pid"]
        self._init = os.pidfd_open(init)
        self._proc = os.open(f"/proc/{init}/root/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.members = Members(self._proc)
        kinds = KINDS | (0 if self.making.network else kernel.CLONE_NEWNET)
        uncounted = 0 if self.group.counts("pids") else self.making.pids
        self.door = Door(self._init, kinds, self.group.entries, uncounted)
        self._unmount()
        ready(None)

    def _unmount(self) -> None:
        """The sandbox's own mount namespace keeps everything; ours stays small."""
        with suppress(OSError):
            kernel.umount(self.base)
        with suppress(OSError):
            os.rmdir(self.base)

    # -- living with it

    def full(self) -> bool:
        return bool(self.making.disk) and os.fstatvfs(self.changes).f_bavail == 0

    def adopt(self, streams: list[Stream]) -> None:
        self._idle += streams
        if self._drain is None:
            self._empty()

    def _empty(self) -> None:
        """Empty the pipes of what was left running, slowly: a flood must not cost us a core."""
        for stream in self._idle:
            stream.read()
            if not stream.open:
                os.close(stream.fd)
        self._idle = [stream for stream in self._idle if stream.open]
        self._drain = self._loop.after(0.05, self._empty) if self._idle else None

    def kill_everyone(self) -> None:
        """All processes of the sandbox but its first, at one stroke."""
        kernel.setns(self._init, kernel.CLONE_NEWPID)
        try:
            pid = os.fork()
            if pid == 0:
                with suppress(OSError):
                    os.kill(-1, signal.SIGKILL)
                os._exit(0)
        finally:
            kernel.setns(kernel.OWN, kernel.CLONE_NEWPID)
        os.waitpid(pid, 0)

    # -- its end

    def close(self, done: Callable[[], None]) -> None:
        self._closing.append(done)
        self._kill_monitor("closed")
        if self._monitor < 0:
            self._finish_closing()

    def _kill_monitor(self, why: str) -> None:
        self.dead = self.dead or why
        # With its first process all others go; bubblewrap ends when it has seen that.
        target = self._init if self._init >= 0 else self._monitor
        if target >= 0:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(target, signal.SIGKILL)

    def _monitor_ended(self) -> None:
        self._loop.unwatch(self._monitor)
        os.waitpid(self._monitor_pid, 0)
        os.close(self._monitor)
        self._monitor = -1
        self.dead = self.dead or "its first process was killed from outside"
        if self._closing:
            self._finish_closing()

    def _finish_closing(self) -> None:
        """Once more and again until the kernel has let go of every process and cgroup."""
        if self.jobs or not self.group.remove():
            self._loop.after(0.002, self._finish_closing)
            return
        if self._drain is not None:
            self._drain.cancel()
        for stream in self._idle:
            os.close(stream.fd)
        self._idle = []
        self._unmount()
        for fd in (self._init, self._proc, self.changes, self.making.tree, getattr(self, "_lifeline", -1)):
            if fd >= 0:
                os.close(fd)
        self._init = self._proc = self.changes = -1
        closing, self._closing = self._closing, []
        for call in closing:
            call()
