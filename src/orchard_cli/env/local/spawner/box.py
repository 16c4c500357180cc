"""One isolated sandbox: its file systems, its first process under bubblewrap, its end."""

import json
import mmap
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from ...agent.launch import memory
from ...agent.loop import Loop
from . import kernel, roots
from .agents import AgentProcess
from .cgroups import Group
from .enter import Door
from .ground import Bounds, Inside, Way, kill_all_here, strike

Ready = Callable[[dict[str, Any] | None], None]  # gets the fault, if there is one
CREATE_DEADLINE = 30.0
KINDS = kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS | kernel.CLONE_NEWIPC | kernel.CLONE_NEWUTS
# The first process says that it stands, then waits for a child that waits for the spawner's end; the waiting
# collects whatever dies inside. It keeps one harmless capability that nothing else inside has, so that nothing
# inside can trace or end it; if the child is killed, another takes its place.
INIT = "echo; exec 3<&0 >&-; while :; do (read -r _ <&3) & wait $!; [ $? = 1 ] && exit; done"
# We are this machine's root in the eyes of sysctl, whatever our capabilities: bubblewrap alone leaves it open.
PROC_READ_ONLY = ("/proc/sys",)
PROC_HIDDEN = ("/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sched_debug", "/proc/latency_stats")


class Making(NamedTuple):
    """What one sandbox is made from, resolved: descriptors and numbers. All directories are lower ones."""

    workdir: str
    root: int
    systems: Sequence[tuple[str, int]]  # (name below /, directory)
    tree: int
    binds: Sequence[tuple[str, str]]
    disk: int  # bytes, 0: no limit
    bounds: Bounds
    network: bool
    calls: bytes  # the filter of system calls; empty: none


class Box:
    def __init__(
        self, loop: Loop, making: Making, base: str, group: Group, *, host: int, bwrap: Sequence[str], rootless: bool
    ):
        self.making, self.group, self.workdir = making, group, making.workdir
        self.jobs: set[Any] = set()
        self.agent: AgentProcess | None = None
        self.door = Door()
        self.pulse = mmap.mmap(-1, mmap.PAGESIZE)
        self.dead = ""  # why it is gone
        self._host = host
        self._loop, self._base, self._bwrap, self._rootless = loop, base, bwrap, rootless
        self._monitor = self._group = self._init = self._proc = self._lifeline = -1
        self._closing: list[Callable[[], None]] = []
        self._closed = False
        os.mkdir(base, 0o700)
        size = f"size={making.disk}," if making.disk else ""
        kernel.mount("tmpfs", base, "tmpfs", kernel.MS_NODEV | kernel.MS_NOSUID, f"{size}mode=0700")
        self.changes = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    # -- making it

    def start(self, ready: Ready) -> None:
        """Mount and start. `changes` may already hold those of another sandbox."""
        if self.dead:
            raise OSError(f"the sandbox was {self.dead} before it stood")
        root = f"{self._base}/root"
        os.mkdir(root)
        os.mkdir(f"{self._base}/shm")
        os.chmod(f"{self._base}/shm", roots.STICKY)
        self._overlay(self.making.root, "top", root)
        for name, lower in self.making.systems:
            self._layer(lower, name, f"/{name}")
        self._layer(self.making.tree, "work", self.making.workdir)
        roots.mount_binds(root, self.making.binds)
        for name in ("proc", "dev"):
            os.close(roots.point(root, name))
        self._spawn(root, ready)

    def _overlay(self, lower: int, name: str, target: str) -> None:
        roots.overlay(lower, self.changes, name, target, userxattr=self._rootless)

    def _layer(self, lower: int, name: str, path: str) -> None:
        place = roots.point(f"{self._base}/root", path)
        try:
            self._overlay(lower, name, f"/proc/self/fd/{place}")
        finally:
            os.close(place)

    def _arguments(self, root: str) -> list[str]:
        hidden = [word for path in PROC_HIDDEN if os.path.exists(path) for word in ("--ro-bind", "/dev/null", path)]
        hidden += [word for path in PROC_READ_ONLY for word in ("--ro-bind", path, path)]
        network = () if self.making.network else ("--unshare-net",)
        # Shared memory counts as disk; the rest of /dev, a tmpfs without a limit, takes no files.
        shared = ("--bind", f"{self._base}/shm", "/dev/shm", "--remount-ro", "/dev")
        view = ("--bind", root, "/", "--proc", "/proc", *hidden, "--dev", "/dev", *shared)
        calls = ("--seccomp", "4") if self.making.calls else ()
        return [*self._bwrap, *network, *view, *calls, "--info-fd", "3", "--", "/bin/sh", "-c", INIT]

    def _spawn(self, root: str, ready: Ready) -> None:
        lifeline, said, info = (os.pipe2(os.O_CLOEXEC) for _ in range(3))
        errors, calls = os.memfd_create("errors"), memory("calls", self.making.calls)
        self._lifeline = lifeline[1]
        ends = ((lifeline[0], 0), (said[1], 1), (errors, 2), (info[1], 3), (calls, 4))
        argv = self._arguments(root)
        monitor = os.posix_spawn(
            argv[0],
            argv,
            {"PATH": "/usr/bin:/bin"},
            file_actions=[(os.POSIX_SPAWN_DUP2, fd, target) for fd, target in ends],
            setpgroup=0,  # so that `end` reaches the child that waits for it too
        )
        self._group = monitor
        for fd in (lifeline[0], said[1], info[1], calls):
            os.close(fd)
        self._monitor = os.pidfd_open(monitor)
        self._loop.watch(self._monitor, partial(self._monitor_ended, monitor))
        timer = self._loop.after(CREATE_DEADLINE, lambda: self.end("did not start in time"))

        def started() -> None:
            timer.cancel()
            self._loop.unwatch(said[0])
            facts = os.read(info[0], 4096) if os.read(said[0], 1) == b"\n" else b""
            complaint = os.pread(errors, 4096, 0).decode(errors="replace").strip()
            for fd in (said[0], info[0], errors):
                os.close(fd)
            if facts:
                self._stands(json.loads(facts)["child-pid"])
                ready(None)
            else:
                why = f"bubblewrap: {complaint or self.dead or 'it ended'}"
                ready({"code": "infra.create_failed", "message": why, "effect": "none"})

        self._loop.watch(said[0], started)

    def _stands(self, init: int) -> None:
        self._init = os.pidfd_open(init)
        if "--disable-userns" not in self._bwrap:
            self._close_user_namespaces()
        self._proc = os.open(f"/proc/{init}/root/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        kinds = KINDS | (0 if self.making.network else kernel.CLONE_NEWNET)
        self.door = Door(self._init, kinds, detour=self._rootless)
        kinds |= kernel.CLONE_NEWPID
        way = Way(self._init, kinds, self._proc, self.changes, self.making.disk, self.making.calls, self.pulse)
        make = partial(Inside, self.group, self.making.bounds, way)
        self.agent = AgentProcess(self._loop, self._host, os.path.basename(self._base), self.workdir, make, self._alone)
        self._unmount()

    def _alone(self) -> None:
        """Nobody answers for it any more."""
        self.end("its agent has ended")
        if self._closing and self._monitor < 0:
            self._finish_closing()

    def _close_user_namespaces(self) -> None:
        """What a newer bubblewrap does itself: nothing inside may make a namespace in which it would be powerful."""
        pid = os.fork()
        if pid == 0:
            with suppress(BaseException):
                limit = os.open("/proc/sys/user", os.O_PATH | os.O_CLOEXEC)
                kernel.setns(self._init, kernel.CLONE_NEWUSER)  # whose limits the file now shows
                fd = os.open("max_user_namespaces", os.O_WRONLY, dir_fd=limit)
                os.write(fd, b"0")
            os._exit(0)
        os.waitpid(pid, 0)

    def _unmount(self) -> None:
        """The sandbox's own mount namespace keeps everything; ours stays small."""
        with suppress(OSError):
            kernel.umount(self._base)
        with suppress(OSError):
            os.rmdir(self._base)

    # -- living with it

    def parts(self) -> list[str]:
        """Names below `changes` that make up the state: what a fork must copy."""
        return ["top", *(name for name, _ in self.making.systems), "work"]

    def kill_everyone(self) -> None:
        """All processes of the sandbox but its first, at one stroke."""
        pid = os.fork()
        if pid == 0:
            with suppress(BaseException):
                self._kill_from_inside()
            os._exit(0)
        os.waitpid(pid, 0)

    def _kill_from_inside(self) -> None:
        wanted = os.stat("1/ns/pid", dir_fd=self._proc).st_ino
        kernel.setns(self._init, kernel.CLONE_NEWPID)

        def inside() -> None:
            kernel.setns(self._init, KINDS)  # for the sight of its own /proc
            kill_all_here(wanted)

        strike(self._proc, inside)

    # -- its end

    def close(self, done: Callable[[], None]) -> None:
        if self._closed:
            done()
            return
        self._closing.append(done)
        self.end("closed")
        if self._monitor < 0:
            self._finish_closing()

    def end(self, why: str) -> None:
        self.dead = self.dead or why
        # With its first process all others go; bubblewrap ends when it has seen that.
        if self.agent is not None:
            self.agent.end()
        with suppress(ProcessLookupError):
            if self._init >= 0:
                signal.pidfd_send_signal(self._init, signal.SIGKILL)
            elif self._monitor >= 0:
                os.killpg(self._group, signal.SIGKILL)

    def _monitor_ended(self, pid: int) -> None:
        self._loop.unwatch(self._monitor)
        os.waitpid(pid, 0)
        os.close(self._monitor)
        self._monitor = -1
        self.end("its first process was killed from outside" if self._init >= 0 else "bubblewrap ended")
        if self._closing:
            self._finish_closing()

    def _finish_closing(self) -> None:
        """Once more and again until the kernel has let go of every process and cgroup."""
        alive = self.jobs or (self.agent is not None and not self.agent.gone)
        if self._closed or alive or not self.group.remove():
            if not self._closed:
                self._loop.after(0.002, self._finish_closing)
            return
        self._unmount()
        self.pulse.close()
        for fd in (self._init, self._proc, self._lifeline, self.changes, self.making.root, self.making.tree):
            if fd >= 0:
                os.close(fd)
        self._init = -1
        self._closed = True
        for call in self._closing:
            call()
