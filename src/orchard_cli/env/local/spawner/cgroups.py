"""Resource limits of the kernel, version 1 or 2, whichever this machine lets us write."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

CONTROLLERS = ("memory", "pids", "cpu")
MIB = 1 << 20
# The first may not exceed the second, which counts what is swapped out as well; or: nothing is swapped out.
MEMORY = {1: ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"), 2: ("memory.max", "memory.swap.max")}
NAMES = {  # what we read: (version 1, version 2, key of the line, version 2 key where it differs)
    "oom": ("memory", "memory.oom_control", "memory.events", "oom_kill", "oom_kill"),
    "charged": ("memory", "memory.usage_in_bytes", "memory.current", "", ""),
    "processes": ("memory", "memory.stat", "memory.stat", "total_rss", "anon"),
    "refused": ("pids", "pids.events", "pids.events", "max", "max"),
    "tasks": ("pids", "pids.current", "pids.current", "", ""),
}


class Hierarchy(NamedTuple):
    """A folder of ours in one cgroup tree, and the controllers that work in it."""

    version: int
    path: Path
    controllers: frozenset[str]
    home: Path = Path("/")  # where this process lives


class Group:
    """The cgroup of one sandbox: one folder in each hierarchy."""

    def __init__(self, folders: Iterable[tuple[Hierarchy, Path]] = ()) -> None:
        self.folders = list(folders)
        self.entries: list[int] = []  # open files, written by whoever joins
        self._open: dict[str, tuple[int, str]] = {}  # our name of a counter -> file, key of the line
        self._homes: list[int] = []  # of whoever joins for a moment only
        self._freezers: list[int] = []

    def add(self, hierarchy: Hierarchy, folder: Path) -> None:
        self.folders.append((hierarchy, folder))
        # One task that moves itself does not make the kernel wait for every other; version 2 has no such file.
        entry = folder / ("tasks" if hierarchy.version == 1 else "cgroup.procs")
        self.entries.append(os.open(entry, os.O_WRONLY | os.O_CLOEXEC))

    def counts(self, controller: str) -> bool:
        return any(controller in hierarchy.controllers for hierarchy, _ in self.folders)

    def tasks(self) -> int:
        """How many the kernel counts in it, the dead that nobody has collected included; -1 where it does not say."""
        return self.counter("tasks", unknown=-1)

    def counter(self, name: str, unknown: int = 0) -> int:
        """`oom` kills, `charged` bytes, bytes of `processes`, forks `refused`; `unknown` where nothing counts."""
        try:
            if name not in self._open and not self._find(name):
                return unknown
            fd, key = self._open[name]
            text = os.pread(fd, 8192, 0).decode()
        except OSError:
            return unknown
        for line in text.splitlines():
            word, _, value = line.partition(" ")
            if word == key or not key:
                return int(value if key else word)
        return unknown

    def _find(self, name: str) -> bool:
        """Open a counter; False where no controller keeps it."""
        controller, old, new, old_key, new_key = NAMES[name]
        for hierarchy, folder in self.folders:
            if controller in hierarchy.controllers:
                file, key = (old, old_key) if hierarchy.version == 1 else (new, new_key)
                self._open[name] = os.open(folder / file, os.O_RDONLY | os.O_CLOEXEC), key
                return True
        return False

    def hold(self) -> None:
        """Open all that is needed later, by a process that will not find it by name any more."""
        for name in NAMES:
            with suppress(OSError):
                self._find(name)
        for hierarchy, folder in self.folders:
            file = "tasks" if hierarchy.version == 1 else "cgroup.procs"
            self._homes.append(os.open(hierarchy.home / file, os.O_WRONLY | os.O_CLOEXEC))
            if hierarchy.version == 2:
                self._freezers.append(os.open(folder / "cgroup.freeze", os.O_WRONLY | os.O_CLOEXEC))

    def descriptors(self) -> list[int]:
        return [*self.entries, *self._homes, *self._freezers, *(fd for fd, _ in self._open.values())]

    def join(self) -> None:
        """This process, and those that it starts from now on."""
        for entry in self.entries:
            os.write(entry, b"0")

    def leave(self) -> None:
        for home in self._homes:
            os.write(home, b"0")

    def limit(self, memory: int, pids: int, cpus: float, *, more: bool = False) -> None:
        """Set limits: bytes, processes, cores; 0 leaves one as it is. `more`: than there was."""
        for hierarchy, folder in self.folders:
            old, quota = hierarchy.version == 1, str(int(cpus * 100_000))
            if memory and "memory" in hierarchy.controllers:
                for name in sorted(MEMORY[hierarchy.version], reverse=more):
                    _put(folder / name, "0" if "swap" in name else str(memory))
            if pids and "pids" in hierarchy.controllers:
                _put(folder / "pids.max", str(pids))
            if cpus and "cpu" in hierarchy.controllers:
                _put(folder / ("cpu.cfs_quota_us" if old else "cpu.max"), quota if old else f"{quota} 100000")

    def freeze(self, frozen: bool) -> None:
        """Stop (or go on with) every process at once, where the kernel lets us (version 2)."""
        for fd in self._freezers:
            with suppress(OSError):
                os.pwrite(fd, b"%d" % frozen, 0)

    def remove(self) -> bool:
        """True when every folder is gone; False while something in one still runs."""
        for fd in self.descriptors():
            os.close(fd)
        for kept in (self.entries, self._homes, self._freezers):
            kept.clear()
        self._open.clear()
        while self.folders:
            try:
                self.folders[-1][1].rmdir()
            except FileNotFoundError:
                pass
            except OSError:
                return False
            self.folders.pop()
        return True


class Cgroups:
    """All hierarchies that we may use, each with one folder named after this environment."""

    def __init__(self, name: str):
        self.name = name
        self.hierarchies: list[Hierarchy] = []
        try:
            mounts, own = _mounts(), _own()
        except OSError:
            return
        for kind, root, point, options in mounts:
            if kind == "cgroup":
                for controller in options & set(CONTROLLERS):
                    self._add_v1(controller, _place(root, point, own.get(controller, "/")))
        for kind, root, point, _ in mounts:
            if kind == "cgroup2":
                place = _place(root, point, own.get("", "/"))
                for candidate in dict.fromkeys((place, place.parent if place != point else point, point)):
                    if self._add_v2(candidate, place):
                        break

    def versions(self) -> dict[str, int]:
        """Which controller works, and by which version."""
        return {c: h.version for h in self.hierarchies for c in sorted(h.controllers)}

    def _add_v1(self, controller: str, base: Path) -> None:
        if controller in self.versions():
            return
        folder = base / self.name
        try:
            folder.mkdir(exist_ok=True)  # a driver before us may have made it: no other bears this name
            os.close(os.open(folder / "cgroup.procs", os.O_WRONLY))
        except OSError:
            return
        self.hierarchies.append(Hierarchy(1, folder, frozenset((controller,)), base))

    def _add_v2(self, base: Path, home: Path) -> bool:
        wanted = [c for c in CONTROLLERS if c not in self.versions()]
        folder = base / self.name
        try:
            offered = set((base / "cgroup.controllers").read_text().split())
            use = [c for c in wanted if c in offered]
            if not use:
                return False
            _enable(base, use)
            folder.mkdir(exist_ok=True)
        except OSError:
            return False
        try:
            _enable(folder, use)
        except OSError:
            folder.rmdir()
            return False
        self.hierarchies.append(Hierarchy(2, folder, frozenset(use), home))
        return True

    def group(self, name: str, *, cpu: bool) -> Group:
        """The folders of one sandbox; the CPU controller only on demand, since joining costs time."""
        made = Group()
        for hierarchy in self.hierarchies:
            if hierarchy.controllers == {"cpu"} and not cpu:
                continue
            (hierarchy.path / name).mkdir()
            made.add(hierarchy, hierarchy.path / name)
        return made

    def remove(self) -> None:
        for hierarchy in self.hierarchies:
            with suppress(OSError):
                hierarchy.path.rmdir()
        self.hierarchies.clear()


def _mounts() -> list[tuple[str, str, Path, set[str]]]:
    """(file system, root of the mount, mount point, super options) of each cgroup mount."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.split(" ", 2)
        if kind in ("cgroup", "cgroup2"):
            fields = left.split(" ")
            found.append((kind, fields[3], Path(fields[4]), set(options.split(","))))
    return found


def _own() -> dict[str, str]:
    """Our place in each tree: controller (version 2: empty) -> path."""
    places = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        places.update({name: path for name in names.split(",")})
    return places


def _place(root: str, point: Path, own: str) -> Path:
    """Our own folder below a mount, whose root may itself be a folder of the tree (in a container)."""
    inside = own[len(root) :] if root != "/" and own.startswith(root) else own
    place = point / inside.lstrip("/")
    return place if place.is_dir() else point


def _enable(folder: Path, controllers: list[str]) -> None:
    (folder / "cgroup.subtree_control").write_text(" ".join(f"+{c}" for c in controllers))


def _put(path: Path, value: str) -> None:
    """Write one control file; one that this kernel lacks (swap accounting) is passed over."""
    with suppress(FileNotFoundError):
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, value.encode())
        finally:
            os.close(fd)
