"""Containers of podman. `apt-get install podman runc`; crun does not run where there are cgroups of both versions.

Its own store lies in the environment's folder, so that nothing of the user's own containers is touched.
"""

import errno
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...errors import ConfigError
from ..local.refusals import no_live_fork
from ..sandbox import Limits
from .held import Held, line
from .making import DOOR, WATCHED, Making, bad_spec, failed

HINT = "apt-get install podman runc uidmap, as root"
# What the first container is asked to be held to: a user's own may be given no cgroup, and podman does not tell.
ASKED = Limits(memory_mb=333, pids=777, cpus=0.25)
READ = """
echo stands
for name in memory.max memory/memory.limit_in_bytes pids.max pids/pids.max cpu.max cpu/cpu.cfs_quota_us; do
    read -r value rest <"/sys/fs/cgroup/$name" && echo "$value"
done 2>/dev/null
true
"""
DEADLINE_S = 90.0
TASKS = 1000  # for a user's processes; root's are counted by the cgroup alone
CGROUP = "the container's cgroup"
RUNTIMES = ("crun", "runc")
PROFILES = (Path("/etc/containers/seccomp.json"), Path("/usr/share/containers/seccomp.json"))
REFUSED = {"clone", "clone3", "unshare", "setns", "mount", "umount", "umount2", "pivot_root", "keyctl", "bpf"}
NEW_NAMESPACES = 0x7E020000  # the flags of clone(2) that make one


class Podman:
    """See `Runtime`. Raises `ConfigError` where no container can be run."""

    name, freezes = "container", False

    def __init__(self, base: Path):
        found = shutil.which("podman", path=os.environ.get("PATH", "") + ":/usr/bin:/usr/local/bin")
        if found is None:
            raise ConfigError("podman is not installed", hint=HINT)
        store = ["--root", str(base / "store"), "--runroot", str(base / "run"), "--cgroup-manager=cgroupfs"]
        self._podman, self._base = [found, *store, "--log-level=error"], base
        # Named as the environment is, what an engine that was killed leaves of them is found and taken away with it.
        self._parent = [] if os.geteuid() else [f"--cgroup-parent=/{base.name}"]
        self.runtime, self._held = self._usable(base)
        self._podman += ["--runtime", self.runtime]
        self._calls = base / "calls.json"
        self._calls.write_text(json.dumps(calls()))

    def _usable(self, base: Path) -> tuple[str, frozenset[str]]:
        """The first runtime that does run something, and which limits a cgroup holds then."""
        root = base / "nothing"
        said = ""
        for name in RUNTIMES:
            if shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/bin:/usr/local/bin") is None:
                continue
            for part in ("usr", "proc", "dev", "sys", "run", "etc"):
                (root / part).mkdir(parents=True, exist_ok=True)
            for link in ("bin", "lib", "lib64"):
                with suppress(FileExistsError):
                    (root / link).symlink_to(f"usr/{link}")
            run = ["--runtime", name, "run", "--rm", "--network=none", *rlimits(), "-v", "/usr:/usr:ro"]
            run += [*self._parent, *cgroup(ASKED)]
            done = self._call([*run, "--rootfs", f"{root}:O", "/bin/sh", "-c", READ])
            if done.returncode == 0 and "stands" in done.stdout:
                return name, held(done.stdout)
            said = line(done.stderr) or f"exit {done.returncode}"
        raise ConfigError(f"podman runs no container: {said or 'neither crun nor runc is installed'}", hint=HINT)

    def start(self, making: Making, frozen: Path | None = None) -> Held:
        door = making.folder / "door"
        door.mkdir(mode=0o700)
        done = self._call(["run", "-d", "--name", making.name, *self._arguments(making, door)])
        try:
            if done.returncode:
                raise failed(f"podman: {line(done.stderr)}")
            control = self._visit(door / "s", making.name)
        except BaseException:
            self._remove(making.name)
            raise
        return self.again(making, control, {})

    def told(self, name: str) -> dict[str, Any]:
        return {}

    def again(self, making: Making, passage: socket.socket, told: Mapping[str, Any]) -> Held:
        name = making.name
        return Held(passage, lambda: self._remove(name), lambda: self._why(name), lambda: self._free(name))

    def _arguments(self, making: Making, door: Path) -> list[str]:
        limits = making.limits
        words = ["--network=none", "--hostname=sandbox", "--no-hosts", "--log-driver=none", *rlimits(limits.disk_mb)]
        words += ["--cap-drop=ALL", "--security-opt=no-new-privileges"]
        words += [f"--security-opt=seccomp={self._calls}"]
        words += [*self._parent, *cgroup(limits)]
        for mount in making.mounts:
            if ":" in f"{mount.source}{mount.target}":
                raise bad_spec(f"{mount.target}: podman takes no path with a colon")
            words += ["-v", f"{mount.source}:{mount.target}:{'O' if mount.writable else 'ro'}"]
        words += ["-v", f"{door}:{DOOR}:rw", "--rootfs", f"{making.root}:O"]
        return [*words, *making.argv, "--passage", f"{DOOR}/s", *making.bounds(self._held)]

    def _visit(self, path: Path, name: str) -> socket.socket:
        """The first and only one."""
        until = time.monotonic() + DEADLINE_S
        while True:
            control = socket.socket(socket.AF_UNIX)
            try:
                control.connect(str(path))
                return control
            except (FileNotFoundError, ConnectionRefusedError):
                control.close()
                if time.monotonic() > until or self._why(name):
                    raise failed(f"the agent does not start in the container: {self._why(name)}") from None
                time.sleep(0.02)

    def _free(self, name: str) -> None:
        """All processes of its cgroup but the first, from out here."""
        first = self._call(["inspect", "--format", "{{.State.Pid}}", name]).stdout.strip()
        for pid in below(int(first or 0)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _why(self, name: str) -> str:
        """Empty while it runs."""
        form = "{{.State.Status}} {{.State.OOMKilled}} {{.State.ExitCode}}"
        done = self._call(["inspect", "--format", form, name])
        if done.returncode:
            return "the container is gone"
        status, oom, code = done.stdout.split()
        if status in ("running", "created", "configured", "initialized"):
            return ""
        return "oom" if oom == "true" else f"the container has {status} with {code}"

    def wipe(self, name: str) -> None:
        self._remove(name)

    def _remove(self, name: str) -> None:
        self._call(["rm", "--force", "--time=0", "--ignore", name])

    def _call(self, arguments: list[str]) -> "subprocess.CompletedProcess[str]":
        try:
            return subprocess.run(
                [*self._podman, *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=DEADLINE_S,
                cwd=self._base,  # where its monitor leaves a file named `oom` when there was one
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise failed(f"podman: {type(error).__name__}: {error}") from error

    def freeze(self, making: Making, into: Path) -> None:
        raise no_live_fork()

    def facts(self) -> dict[str, str]:
        return {
            **{name: CGROUP if name in self._held else WATCHED for name in ("memory", "pids")},
            "cpus": CGROUP if "cpus" in self._held else "no limit",
            "disk": "each file at most that size; no limit on all of them",
            "seccomp": f"the engine's own (podman, {self.runtime})",
        }

    def close(self) -> None:
        self._call(["rm", "--all", "--force", "--time=0"])


def calls() -> dict[str, Any]:
    """The engine's own list of system calls, less those by which a process gets powers in a namespace of its own."""
    found = [path for path in PROFILES if path.is_file()]
    if not found:
        raise ConfigError(f"the engine's list of system calls is not there: {PROFILES[0]}", hint=HINT)
    profile: dict[str, Any] = json.loads(found[0].read_text())
    for rule in profile["syscalls"]:
        rule["names"] = [name for name in rule["names"] if name not in REFUSED]
    plain = [{"index": 0, "value": NEW_NAMESPACES, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}]
    rules = [rule for rule in profile["syscalls"] if rule["names"]]
    rules.append({"names": ["clone"], "action": "SCMP_ACT_ALLOW", "args": plain})
    # Its flags lie in memory, where no filter sees them: libraries take `clone` when there is no such call.
    rules.append({"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": errno.ENOSYS})
    return {**profile, "syscalls": rules}


def below(first: int) -> list[int]:
    """Those that live in the pid namespace of `first`, itself excepted."""
    found = []
    with suppress(OSError):
        wanted = Path(f"/proc/{first}/ns/pid").readlink()
        if first < 2 or wanted == Path("/proc/self/ns/pid").readlink():
            return []
        for place in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if (place / "ns/pid").readlink() == wanted and int(place.name) != first:
                    found.append(int(place.name))
    return found


def cgroup(limits: Limits) -> list[str]:
    """What the engine is told to hold a container to."""
    words = [f"--pids-limit={limits.pids or -1}"]
    if limits.memory_mb:
        words += [f"--memory={limits.memory_mb}m", f"--memory-swap={limits.memory_mb}m"]
    return [*words, *([f"--cpus={limits.cpus}"] if limits.cpus else [])]


def held(said: str) -> frozenset[str]:
    """Which limits of `ASKED` a container reads in its cgroup."""
    told = {"memory": ASKED.memory_mb << 20, "pids": ASKED.pids, "cpus": ASKED.cpus * 100_000}
    return frozenset(name for name, value in told.items() if f"{value:.0f}" in said.split())


def rlimits(disk_mb: int = 0) -> list[str]:
    """Ours: without the power to raise them, the engine's own defaults fail."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    files = 65536 if files == resource.RLIM_INFINITY else min(files, 65536)
    words = [f"--ulimit=nofile=1024:{files}", f"--ulimit=nproc={TASKS}:{TASKS}"]
    return words + ([f"--ulimit=fsize={disk_mb << 20}:{disk_mb << 20}"] if disk_mb else [])
