"""gVisor: a kernel of its own in user space between the sandbox and this machine's. Debian: `apt-get install runsc`.

Writes go to an overlay in the sandbox's memory. Where no device of a hypervisor is used the platform is `ptrace` (or
`systrap`, in newer versions): `kvm` hangs on some machines that offer it.
"""

import json
import os
import resource
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import ConfigError, SandboxError
from ..local import leftovers
from ..local.elder import Elder, Process
from ..local.spawner.cgroups import MIB, Cgroups, Group, Hierarchy
from .held import Held, tail
from .making import WATCHED, Making, failed

HINT = "apt-get install runsc, as root"
END_S, FREEZE_S = 20.0, 300.0
CONFIG = "config.json"  # what a bundle is known by
OWN_BYTES = 192 * MIB  # what gVisor itself may take on top of the sandbox's memory and disk
# Of this machine, for gVisor and for each process inside: a backstop for what we watch.
OWN_TASKS, TASKS_EACH = 1024, 32
# Into the cgroups first, so that all of it counts.
JOIN = 'while [ "$1" != -- ]; do echo 0 >"$1" || exit; shift; done; shift; exec "$@"'
NAMESPACES = ("pid", "network", "ipc", "uts", "mount")


class Gvisor:
    """See `Runtime`. Raises `ConfigError` where runsc cannot be used at all."""

    name = "gvisor"

    def __init__(self, base: Path):
        found = shutil.which("runsc", path=os.environ.get("PATH", "") + ":/usr/bin:/usr/local/bin")
        if found is None:
            raise ConfigError("runsc (gVisor) is not installed", hint=HINT)
        self._cgroups = Cgroups(base.name)
        flags = _run([found, "flags"])
        self._state = str(base / "runsc")
        self.platform = "systrap" if "systrap" in flags else "ptrace"
        self._overlay = "--overlay2=all:memory" if "-overlay2" in flags else "--overlay"
        self._runsc = [found, f"--root={self._state}", f"--platform={self.platform}", "--network=none"]
        self.freezes = not os.geteuid()  # a user's sandbox goes to disk, but does not come back
        self._running: dict[str, tuple[Process, Group]] = {}
        self._runsc += ["--ignore-cgroups", self._overlay, *(["--rootless"] if os.geteuid() else [])]

    def start(self, making: Making, frozen: Path | None = None) -> Held:
        group = self._group(making)
        if frozen is None:
            (making.folder / CONFIG).write_text(json.dumps(bundle(making)))
        elif not (making.folder / CONFIG).exists():
            shutil.copy(frozen / CONFIG, making.folder)
        how = ["restore", "--image-path", str(frozen)] if frozen else ["run"]
        run = [*self._runsc, *how, "--bundle", str(making.folder), making.name]
        ours, theirs = socket.socketpair()
        log = making.folder / "log"
        entries = [f"/proc/self/fd/{entry}" for entry in group.entries]
        with theirs, log.open("ab") as said:
            process = subprocess.Popen(
                ["/bin/sh", "-c", JOIN, "sh", *entries, "--", *run],
                stdin=theirs.fileno(),
                stdout=said,
                stderr=said,
                pass_fds=group.entries,
                cwd="/",
                start_new_session=True,
            )
        self._running[making.name] = process, group
        return self._held(making, ours, group)

    def _held(self, making: Making, passage: socket.socket, group: Group) -> Held:
        def why() -> str:
            if group.counter("refused"):
                return "pid_limit"
            return "oom" if group.counter("oom") else tail(making.folder / "log") or "its agent has ended"

        return Held(passage, lambda: self._end(making.name), why, lambda: self._free(making.name))

    def told(self, name: str) -> dict[str, Any]:
        process, group = self._running[name]
        folders = [(place.version, sorted(place.controllers), str(folder)) for place, folder in group.folders]
        return {"pid": process.pid, "started": leftovers.started(process.pid), "folders": folders}

    def again(self, making: Making, passage: socket.socket, told: Mapping[str, Any]) -> Held:
        group = Group()
        for version, controllers, folder in told["folders"]:
            with suppress(OSError):
                group.add(Hierarchy(version, Path(folder).parent, frozenset(controllers)), Path(folder))
        self._running[making.name] = _elder(told["pid"], told["started"]), group
        return self._held(making, passage, group)

    def wipe(self, name: str) -> None:
        _quiet([*self._runsc, "delete", "--force", name])

    def _group(self, making: Making) -> Group:
        """What comes back from disk goes on where it was."""
        if making.name in self._running:
            return self._running[making.name][1]
        limits, group = making.limits, self._cgroups.group(making.name, cpu=bool(making.limits.cpus))
        room = (limits.memory_mb + limits.disk_mb) * MIB + OWN_BYTES if limits.memory_mb else 0
        group.limit(room, limits.pids * TASKS_EACH + OWN_TASKS if limits.pids else 0, limits.cpus)
        return group

    def freeze(self, making: Making, into: Path) -> None:
        try:
            done = subprocess.run(
                [*self._runsc, "checkpoint", "--image-path", str(into), making.name],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=FREEZE_S,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SandboxError(f"runsc does not put it on disk: {error}", code="infra.freeze_failed") from error
        if done.returncode:
            said = (done.stdout + done.stderr).strip().partition("\n")[0][:300]  # the cause; a trace comes after it
            raise SandboxError(f"runsc does not put the sandbox on disk: {said}", code="infra.freeze_failed")
        self._over(making.name)
        shutil.copy(making.folder / CONFIG, into)

    def _over(self, name: str) -> None:
        """Its process ends by itself, or is ended; the runtime forgets it."""
        process, _ = self._running[name]
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        _quiet([*self._runsc, "delete", "--force", name])

    def _end(self, name: str) -> None:
        """With its passage closed the agent ends, and with it all; if it does not, it is made to."""
        process, group = self._running[name]
        try:
            process.wait(0)
        except subprocess.TimeoutExpired:
            with suppress(SandboxError):  # on a busy machine it takes its time
                _quiet([*self._runsc, "kill", "--all", name, "KILL"])
        with suppress(SandboxError):
            self._over(name)
        del self._running[name]
        for count in range(500):
            if group.remove():
                return
            for _, folder in group.folders if count > 50 else ():  # the runtime itself has not ended it in time
                leftovers.kill(folder)
            time.sleep(0.01)

    def _free(self, name: str) -> None:
        """By gVisor itself: a process of ours inside would be stopped like all others."""
        try:
            pids = json.loads(_run([*self._runsc, "ps", "-format", "json", name]))
        except (ConfigError, ValueError) as error:
            raise failed(f"runsc does not say what runs in the sandbox: {error}") from error
        for pid in pids:
            if pid != 1:
                _quiet([*self._runsc, "kill", "-pid", str(pid), name, "KILL"])

    def facts(self) -> dict[str, str]:
        kept = self._cgroups.versions()
        return {
            "memory": WATCHED + (", a cgroup around all of it" if "memory" in kept else ""),
            "pids": WATCHED,
            "cpus": f"cgroup v{kept['cpu']}" if "cpu" in kept else "no limit",
            "disk": "in memory, bounded together with it" if "memory" in kept else "no limit",
            "seccomp": f"a kernel of its own (gVisor, {self.platform})",
        }

    def close(self) -> None:
        self._cgroups.remove()


@dataclass(frozen=True)
class Gone:
    """A `Process` that is not there any more."""

    pid: int

    def wait(self, timeout: float | None = None) -> int:
        return 0

    def kill(self) -> None: ...


def _elder(pid: int, started: int) -> Process:
    """A process that is not our child; another may bear its number by now."""
    with suppress(OSError):
        process = Elder(pid)
        if leftovers.started(pid) == started:
            return process
    return Gone(pid)


def bundle(making: Making) -> dict[str, Any]:
    """The OCI configuration."""
    files = min(65536, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    mounts: list[dict[str, object]] = [
        {"destination": "/proc", "type": "proc", "source": "proc"},
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
        {"destination": "/dev/shm", "type": "tmpfs", "source": "tmpfs", "options": ["mode=1777"]},
    ]
    for mount in making.mounts:
        options = ["rbind", "rw" if mount.writable else "ro"]
        mounts.append({"destination": mount.target, "type": "bind", "source": str(mount.source), "options": options})
    argv = [*making.argv, "--passage", "0", *making.bounds()]
    process = {
        "user": {"uid": 0, "gid": 0},
        "args": argv,
        "env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
        "cwd": "/",
        "noNewPrivileges": True,
        "capabilities": {},
        "rlimits": [{"type": "RLIMIT_NOFILE", "hard": files, "soft": min(files, 1024)}],
    }
    return {
        "ociVersion": "1.0.0",
        "process": process,
        "root": {"path": str(making.root), "readonly": False},
        "hostname": "sandbox",
        "mounts": mounts,
        "linux": {"namespaces": [{"type": kind} for kind in NAMESPACES]},
    }


def _run(argv: list[str]) -> str:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=END_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"runsc does not run: {error}", hint=HINT) from error
    return done.stdout + done.stderr


def _quiet(argv: list[str]) -> None:
    try:
        subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=END_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise failed(f"{argv[0]} cannot be run, or did not end in time: {error}") from error
