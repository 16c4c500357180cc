"""Resource limits of the kernel, version 1 or 2, whichever this machine lets us write."""

import os
from dataclasses import dataclass, field
from pathlib import Path

CONTROLLERS = ("memory", "pids", "freezer", "cpu")
MIB = 1 << 20


@dataclass(frozen=True)
class Hierarchy:
    """A folder of ours in one cgroup tree, and the controllers that work in it."""

    version: int
    path: Path
    controllers: frozenset[str]


@dataclass
class Group:
    """The cgroup of one sandbox: one folder in each hierarchy."""

    folders: list[tuple[Hierarchy, Path]] = field(default_factory=list)
    entries: list[int] = field(default_factory=list)  # open cgroup.procs, written by whoever joins

    def _file(self, controller: str, v1: str, v2: str) -> tuple[Path, int] | None:
        for hierarchy, folder in self.folders:
            if controller in hierarchy.controllers:
                name = v1 if hierarchy.version == 1 else v2
                return (folder / name, hierarchy.version) if name else None
        return None

    def _counter(self, controller: str, v1: str, v2: str, key: str) -> int:
        found = self._file(controller, v1, v2)
        if found is None:
            return 0
        try:
            for line in found[0].read_text().splitlines():
                name, _, value = line.partition(" ")
                if name == key or not value:
                    return int(value or name)
        except (OSError, ValueError):
            return 0
        return 0

    def counts(self, controller: str) -> bool:
        return any(controller in hierarchy.controllers for hierarchy, _ in self.folders)

    def oom_kills(self) -> int:
        return self._counter("memory", "memory.oom_control", "memory.events", "oom_kill")

    def pid_refusals(self) -> int:
        return self._counter("pids", "pids.events", "pids.events", "max")

    def memory_charged(self) -> int:
        """Bytes charged, files in memory included."""
        return self._counter("memory", "memory.usage_in_bytes", "memory.current", "")

    def memory_of_processes(self) -> int:
        version = 1 if any(h.version == 1 for h, _ in self.folders if "memory" in h.controllers) else 2
        key = "total_rss" if version == 1 else "anon"
        return self._counter("memory", "memory.stat", "memory.stat", key)

    def freeze(self, frozen: bool) -> bool:
        """Stop (or go on with) every process at once; False where the kernel offers no freezer."""
        found = self._file("freezer", "freezer.state", "cgroup.freeze")
        if found is None:
            return False
        words = ("FROZEN", "THAWED") if found[1] == 1 else ("1", "0")
        try:
            found[0].write_text(words[0 if frozen else 1])
        except OSError:
            return False
        return True

    def limit(self, memory: int, pids: int, cpus: float) -> None:
        """Set limits: bytes, processes, cores; 0 leaves one open."""
        if memory:
            self._set("memory", "memory.limit_in_bytes", "memory.max", str(memory))
            self._set("memory", "memory.memsw.limit_in_bytes", "", str(memory))
            self._set("memory", "", "memory.swap.max", "0")
        if pids:
            self._set("pids", "pids.max", "pids.max", str(pids))
        if cpus:
            self._set(
                "cpu", "cpu.cfs_period_us", "cpu.max", "100000" if self._is_v1("cpu") else f"{int(cpus * 1e5)} 100000"
            )
            self._set("cpu", "cpu.cfs_quota_us", "", str(int(cpus * 1e5)))

    def _is_v1(self, controller: str) -> bool:
        return any(h.version == 1 for h, _ in self.folders if controller in h.controllers)

    def _set(self, controller: str, v1: str, v2: str, value: str) -> None:
        found = self._file(controller, v1, v2)
        if found is not None and found[0].exists():
            found[0].write_text(value)

    def remove(self) -> bool:
        """True when every folder is gone; False while something in one still runs."""
        while self.entries:
            os.close(self.entries.pop())
        while self.folders:
            try:
                self.folders[-1][1].rmdir()
            except FileNotFoundError:
                pass
            except OSError:
                return False
            self.folders.pop()
        return True


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
        for name in names.split(","):
            places[name] = path
    return places


def _place(root: str, point: Path, own: str) -> Path:
    inside = own[len(root) :] if root != "/" and own.startswith(root) else own
    place = point / inside.lstrip("/")
    return place if place.is_dir() else point


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
                    if self._add_v2(candidate):
                        break

    def have(self) -> frozenset[str]:
        return frozenset(c for h in self.hierarchies for c in h.controllers)

    def versions(self) -> dict[str, int]:
        return {c: h.version for h in self.hierarchies for c in sorted(h.controllers)}

    def _add_v1(self, controller: str, base: Path) -> None:
        if controller in self.have():
            return
        folder = base / self.name
        try:
            folder.mkdir()
            os.close(os.open(folder / "cgroup.procs", os.O_WRONLY))
        except OSError:
            return
        self.hierarchies.append(Hierarchy(1, folder, frozenset((controller,))))

    def _add_v2(self, base: Path) -> bool:
        wanted = [c for c in ("memory", "pids", "cpu") if c not in self.have()]
        folder = base / self.name
        try:
            offered = set((base / "cgroup.controllers").read_text().split())
            use = [c for c in wanted if c in offered]
            if not use:
                return False
            _enable(base, use)
            folder.mkdir()
        except OSError:
            return False
        try:
            _enable(folder, use)
            freezer = {"freezer"} - self.have()
            self.hierarchies.append(Hierarchy(2, folder, frozenset(use) | freezer))
        except OSError:
            folder.rmdir()
            return False
        return True

    def group(self, name: str) -> Group:
        made = Group()
        for hierarchy in self.hierarchies:
            folder = hierarchy.path / name
            folder.mkdir()
            made.folders.append((hierarchy, folder))
            made.entries.append(os.open(folder / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC))
        return made

    def remove(self) -> None:
        for hierarchy in self.hierarchies:
            try:
                hierarchy.path.rmdir()
            except OSError:
                continue
        self.hierarchies.clear()


def _enable(folder: Path, controllers: list[str]) -> None:
    on = set((folder / "cgroup.subtree_control").read_text().split())
    missing = [f"+{c}" for c in controllers if c not in on]
    if missing:
        (folder / "cgroup.subtree_control").write_text(" ".join(missing))
