"""All sandboxes of this spawner: how they come to be, by whom they are found, how they end."""

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from ...agent.loop import Loop
from . import kernel, roots, seccomp
from .box import Box, Making
from .cgroups import MIB, Cgroups, Group
from .enter import Plan
from .faults import Fault, Header, client, guarded
from .forks import DEADLINE, Fork
from .ground import Bounds
from .job import Job
from .plain import PARTS, Plain
from .sealing import copy_parts

LOOK_S = 1.0  # between two looks at whether an agent makes progress
STUCK = 60  # looks after which one is stuck whatever the reason
Place = Box | Plain


class Places:
    def __init__(self, loop: Loop, header: Header):
        self.base: str = header["base"]
        self.isolated = bool(header["bwrap"])
        self._loop, self._bwrap, self._rootless = loop, header["bwrap"], False
        self._known: dict[str, Place] = {}
        self._beats: dict[str, tuple[bytes, int]] = {}  # and how often it was seen before
        self._count = 0
        self.host = _directory(self.base)  # as the driver sees it
        loop.after(LOOK_S, self._look)
        self.calls = seccomp.usable() if self.isolated else b""
        if self.isolated:
            self._rootless = not _private_mounts(self.base)
            kernel.hide_memory()  # only now: who is hidden may not write its own uid_map
            os.mkdir(f"{self.base}/skeleton")
            roots.build_skeleton(Path(self.base, "skeleton"), network=header["network"])
        os.mkdir(f"{self.base}/empty")
        self._systems = [(name, _directory(f"/{name}")) for name in roots.system_directories()]
        self.cgroups = Cgroups(os.path.basename(self.base))

    def find(self, name: str) -> Place:
        if name not in self._known:
            raise client("closed", "this sandbox is closed")
        place = self._known[name]
        if place.dead:
            raise gone(place, effect="none")
        return place

    def _look(self) -> None:
        """A process that is stopped on its way to becoming a program holds its agent up: then all inside must go."""
        for name, place in self._known.items():
            if isinstance(place, Box) and not place.dead and place.agent is not None:
                beat, (last, seen) = place.pulse[:8], self._beats.get(name, (b"", 0))
                seen = seen + 1 if beat == last and beat[0] % 2 else 0
                if seen >= STUCK or (seen and place.agent.held_up()):
                    with suppress(OSError):  # for want of a process or a descriptor: tried again at the next look
                        place.kill_everyone()
                self._beats[name] = beat, seen
        self._loop.after(LOOK_S, self._look)

    def items(self) -> list[tuple[str, Place]]:
        return list(self._known.items())

    def number(self) -> int:
        self._count += 1
        return self._count

    # -- the beginning

    def create(self, header: Header, done: Callable[[str, Place], None], failed: Callable[[Header], None]) -> None:
        name = str(self.number())
        source = self.find(header["source"]) if header["source"] else None
        group = self.cgroups.group(name, cpu=bool(header["cpus"]))
        try:
            place = self._make(name, header, group, Bounds(header["memory_mb"] * MIB, header["pids"]))
        except (OSError, Fault):
            group.remove()
            raise
        self._known[name] = place

        def undo(fault: Header) -> None:
            self._known.pop(name, None)
            place.close(lambda: failed(fault))

        def ready(fault: Header | None) -> None:
            undo(fault) if fault else done(name, place)

        def start() -> None:
            guarded(lambda: place.start(ready), undo)

        if isinstance(place, Plain):
            guarded(lambda: self._copy(source or place, place, start, undo), undo)
        elif isinstance(source, Box):
            Fork(self._loop, source, place, start, undo)
        else:
            start()

    def _make(self, name: str, header: Header, group: Group, bounds: Bounds) -> Place:
        disk, memory = header["disk_mb"] * MIB, header["memory_mb"] * MIB
        # The disk is in memory and counts there; see `watch`.
        hard = (memory + disk if disk else 0) if self.isolated else memory
        group.limit(hard if memory else 0, header["pids"], header["cpus"])
        base = f"{self.base}/{name}"
        if not self.isolated:
            tree = _directory(header["tree"] or f"{self.base}/empty")
            return Plain(self._loop, tree, base, group, bounds=bounds, host=self.host)
        making = self._making(header, disk, bounds)
        return Box(self._loop, making, base, group, host=self.host, bwrap=self._bwrap, rootless=self._rootless)

    def _making(self, header: Header, disk: int, bounds: Bounds) -> Making:
        host = header["image"] == "host"
        root = f"{self.base}/skeleton" if host else header["image"]
        inside = f"{root}/{header['workdir'].strip('/')}"
        for source, _ in header["binds"]:
            if not os.path.exists(source):
                raise client("bad_spec", f"{source}: no such file or directory")
        tree = header["tree"] or (inside if os.path.isdir(inside) else f"{self.base}/empty")
        lowers: list[int] = []
        try:
            lowers += [_directory(root)]
            lowers += [_directory(tree)]
        except Fault:
            for fd in lowers:
                os.close(fd)
            raise
        return Making(
            workdir=header["workdir"],
            root=lowers[0],
            systems=self._systems if host else (),
            tree=lowers[1],
            binds=[(source, target) for source, target in header["binds"]],
            disk=disk,
            bounds=bounds,
            network=header["network"],
            calls=self.calls,
        )

    def _copy(self, home: Place, place: Plain, then: Callable[[], None], failed: Callable[[Header], None]) -> None:
        """Fill a new directory in a child of its own, so that nobody else waits."""
        parts = [(home.changes, part, part) for part in PARTS] if home is not place else [(place.tree, ".", "work")]
        plan = Plan(partial(copy_parts, parts, place.changes), inside=False)

        def done(job: Job) -> None:
            home.jobs.discard(job)
            said = f"copy: {job.errors.keep.value().decode(errors='replace')}"
            fault = job.fault or ({"code": "infra.copy_failed", "message": said} if job.exit_code else None)
            failed(fault) if fault else then()

        home.jobs.add(Job(self._loop, home.door, plan, done, timeout=DEADLINE))

    # -- the end

    def close(self, name: str, done: Callable[[], None]) -> None:
        if name in self._known:
            self._beats.pop(name, None)
            self._known.pop(name).close(done)
        else:
            done()

    def close_all(self, done: Callable[[], None]) -> None:
        left = set(self._known)

        def one_less(name: str) -> None:
            left.discard(name)
            if not left:
                done()

        for name in tuple(left):
            self.close(name, partial(one_less, name))
        if not left:
            done()


def gone(place: Place, effect: str) -> Fault:
    if place.dead == "closed":
        return Fault("client.closed", "this sandbox was closed meanwhile", attributable="client", effect=effect)
    return Fault("infra.sandbox_lost", f"the sandbox is gone: {place.dead}", effect=effect)


def _directory(path: str) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise client("bad_spec", f"{path}: {error.strerror}") from error


def _private_mounts(base: str) -> bool:
    """A mount namespace of our own, where nothing that we mount is seen by or outlives anybody.

    True if we could have it as we are; False if it took a user namespace (we are not root, or a root of little power).
    """
    root = os.geteuid() == 0
    try:
        if root:
            os.setgroups([])
        kernel.unshare(kernel.CLONE_NEWNS)
    except PermissionError:
        root = False
        uid, gid = os.getuid(), os.getgid()
        kernel.unshare(kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    kernel.mount("none", "/", "", kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount("tmpfs", base, "tmpfs", kernel.MS_NODEV | kernel.MS_NOSUID, "size=1g,mode=0700")
    return root
