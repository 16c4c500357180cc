"""One isolated sandbox: its file systems, its first process under bubblewrap, its end."""

import json
import mmap
import os
import signal
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from ...agent.launch import memory
from ...agent.loop import Loop
from . import kernel, roots
from .agents import AgentProcess
from .cgroups import Group
from .enter import Door, close_user_namespaces
from .faults import guarded
from .ground import KINDS, Bounds, Inside, Way, kill_all_of
from .layers import Layers
from .sealing import Origin

Ready = Callable[[dict[str, Any] | None], None]  # gets the fault, if there is one
CREATE_DEADLINE = 30.0
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
        self, loop: Loop, making: Making, base: str, group: Group, host: int, bwrap: list[str], rootless: bool
    ):
        self.making, self.group, self.workdir = making, group, making.workdir
        self.layers, self.way = Layers(making.tree), ""  # how its files came to it, if it is a fork
        self.jobs: set[Any] = set()
        self.turns = deque[Callable[[], None]]()  # forks that are under way, and that wait for these
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
        root, work, shm = (f"{self._base}/{name}" for name in ("root", "place", "shm"))
        for place in (root, work, shm):
            os.mkdir(place)
        os.chmod(shm, roots.STICKY)
        self._overlay([self.making.root], "top", root)
        for name, lower in self.making.systems:
            self._layer(lower, name, f"/{name}")
        os.close(roots.point(root, self.workdir))
        self._overlay(self.layers.below, self.layers.upper, work)
        self.layers.mounted(work)
        roots.mount_binds(root, work, self.workdir, self.making.binds)
        for name in ("proc", "dev"):
            os.close(roots.point(root, name))
        self._spawn(root, ready)

    def _overlay(self, lowers: list[int], name: str, target: str) -> None:
        roots.overlay(lowers, self.changes, name, target, userxattr=self._rootless)

    def _layer(self, lower: int, name: str, path: str) -> None:
        place = roots.point(f"{self._base}/root", path)
        try:
            self._overlay([lower], name, f"/proc/self/fd/{place}")
        finally:
            os.close(place)

    def _arguments(self, root: str) -> list[str]:
        hidden = [word for path in PROC_HIDDEN if os.path.exists(path) for word in ("--ro-bind", "/dev/null", path)]
        hidden += [word for path in PROC_READ_ONLY for word in ("--ro-bind", path, path)]
        network = () if self.making.network else ("--unshare-net",)
        # Shared memory counts as disk; the rest of /dev, a tmpfs without a limit, takes no files.
        shared = ("--bind", f"{self._base}/shm", "/dev/shm", "--remount-ro", "/dev")
        # Bound by itself, the work directory's mount is not locked to the root's: a fork can put another in its place.
        files = ("--bind", root, "/", "--bind", f"{self._base}/place", self.workdir)
        view = (*files, "--proc", "/proc", *hidden, "--dev", "/dev", *shared)
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
            if facts:  # it may have died since
                faults: list[dict[str, Any]] = []
                guarded(lambda: self._stands(json.loads(facts)["child-pid"]), faults.append)
                ready(faults[0] if faults else None)
            else:
                why = f"bubblewrap: {complaint or self.dead or 'it ended'}"
                ready({"code": "infra.create_failed", "message": why, "effect": "none"})

        self._loop.watch(said[0], started)

    def _stands(self, init: int) -> None:
        self._init = os.pidfd_open(init)
        if "--disable-userns" not in self._bwrap:
            close_user_namespaces(self._init)
        self._proc = os.open(f"/proc/{init}/root/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        kinds = KINDS | (0 if self.making.network else kernel.CLONE_NEWNET)
        self.door = Door(self._init, kinds, detour=self._rootless)
        kinds |= kernel.CLONE_NEWPID
        way = Way(self._init, kinds, self._proc, self.changes, self.making.disk, self.making.calls, self.pulse)
        make = partial(Inside, self.group, self.making.bounds, way)
        self.agent = AgentProcess(self._loop, self._host, os.path.basename(self._base), self.workdir, make, self._alone)
        self.layers.outlive(self.changes)
        self._unmount()

    def _alone(self) -> None:
        """Nobody answers for it any more."""
        self.end("its agent has ended")
        if self._closing and self._monitor < 0:
            self._finish_closing()

    def _unmount(self) -> None:
        """The sandbox's own mount namespace keeps everything; ours stays small."""
        with suppress(OSError):
            kernel.umount(self._base)
        with suppress(OSError):
            os.rmdir(self._base)

    # -- living with it

    def origin(self, layer: int) -> Origin:
        """What a fork of it is made of; `layer`: its upper one, as a mount."""
        layers, parts = self.layers, ("top", *(name for name, _ in self.making.systems))
        known = (layers.upper, layers.fresh, layers.below, layer, layers.device, layers.fixed)
        return Origin(self.changes, parts, *known, self._init, self._proc, self.workdir, self._rootless)

    def grow(self) -> None:
        """Part of its disk is sealed now: its limits are for what it writes from here on."""
        if self.making.disk:
            disk, memory = self.making.disk + self.layers.size, self.making.bounds.memory
            with suppress(OSError):
                self.group.limit(memory + disk if memory else 0, 0, 0, more=True)
                kernel.resize(self.changes, disk)

    def kill_everyone(self) -> None:
        """All processes of the sandbox but its first, at one stroke."""
        kill_all_of(self._init, self._proc)

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
        alive = self.jobs or self.turns or (self.agent is not None and not self.agent.gone)
        if self._closed or alive or self.layers.emptying(self._loop, self.changes) or not self.group.remove():
            if not self._closed:
                self._loop.after(0.002, self._finish_closing)
            return
        self._unmount()
        self.pulse.close()
        for fd in (self._init, self._proc, self._lifeline, self.changes, self.making.root):
            if fd >= 0:
                os.close(fd)
        self.layers.close()
        self._init = -1
        self._closed = True
        for call in self._closing:
            call()
