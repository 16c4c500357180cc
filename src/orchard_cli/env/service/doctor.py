"""What this machine can isolate with, each tried and not only looked for, and what to install for more."""

import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ...errors import ConfigError, installed
from ..local.local import LocalEnv

DEADLINE_S = 20.0
PACKAGES = ("starlette", "uvicorn", "prometheus_client", "websockets")


@dataclass(frozen=True)
class Finding:
    """One line of the doctor's report. `state`: proven, present (found, not tried), missing, failed."""

    what: str
    state: str
    detail: str
    hint: str = ""

    @property
    def good(self) -> bool:
        return self.state in ("proven", "present")


def examine() -> list[Finding]:
    return [_bubblewrap(), *_engines(), _cgroups(), _overlay(), _packages(), _postgres(), _limits()]


def _bubblewrap() -> Finding:
    what = "bwrap (env.isolation=bwrap)"
    if shutil.which("bwrap") is None:
        return Finding(what, "missing", "bubblewrap is not installed", "apt-get install bubblewrap")
    try:
        with LocalEnv("bwrap") as env:
            said = env.describe()
    except ConfigError as error:
        return Finding(what, "failed", str(error), error.hint)
    proven = said["proven"]
    assert isinstance(proven, dict)
    limits = ", ".join(f"{name} by {said[name]}" for name in ("memory", "pids", "cpus", "disk"))
    return Finding(what, "proven", f"tried from inside, held: {', '.join(sorted(proven))}; {limits}")


def _engines() -> list[Finding]:
    tried = {
        "runsc (gVisor)": ("runsc", ("--network=none", "--ignore-cgroups", "do", "true"), "apt-get install runsc"),
        "podman": ("podman", ("version", "--format", "{{.Server.Version}}"), "apt-get install podman"),
        "docker": ("docker", ("version", "--format", "{{.Server.Version}}"), "an engine must run, not only the client"),
    }
    return [_engine(what, *how) for what, how in tried.items()]


def _engine(what: str, program: str, arguments: tuple[str, ...], hint: str) -> Finding:
    """Present, if it did what was asked within the deadline: some hang instead."""
    path = shutil.which(program)
    if path is None:
        return Finding(what, "missing", f"{program} is not installed", hint)
    try:
        done = subprocess.run([path, *arguments], capture_output=True, text=True, timeout=DEADLINE_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding(what, "failed", f"{type(error).__name__}: {error}", hint)
    said = (done.stdout or done.stderr).strip().splitlines()
    if done.returncode:
        return Finding(what, "failed", said[-1] if said else f"exit {done.returncode}", hint)
    return Finding(what, "present", f"answers{': ' + said[-1] if said else ''}; not used by orchard yet")


def _cgroups() -> Finding:
    root = Path("/sys/fs/cgroup")
    v2 = (root / "cgroup.controllers").is_file()
    found = "v2" if v2 else "v1" if (root / "memory").is_dir() else ""
    if not found:
        return Finding("cgroups", "missing", "limits fall back to rlimits and a watchdog", "mount /sys/fs/cgroup")
    writable = os.access(root if v2 else root / "memory", os.W_OK)
    if not writable:
        return Finding("cgroups", "failed", f"{found}, not writable", "run as root, or delegate a cgroup to this user")
    return Finding("cgroups", "present", f"{found}, writable")


def _overlay() -> Finding:
    here = "overlay" in Path("/proc/filesystems").read_text().split()
    state = "present" if here else "missing"
    return Finding("overlayfs", state, f"kernel {platform.release()}", "" if here else "modprobe overlay")


def _packages() -> Finding:
    missing = [name for name in PACKAGES if not installed(name)]
    if missing:
        return Finding("orchard env serve", "missing", f"lacks {', '.join(missing)}", "pip install 'orchard-cli[env]'")
    return Finding("orchard env serve", "present", "every package is there")


def _postgres() -> Finding:
    if installed("asyncpg"):
        return Finding("PostgreSQL store", "present", "asyncpg is there; --database names the server")
    return Finding("PostgreSQL store", "missing", "only for several servers", "pip install 'orchard-cli[postgres]'")


def _limits() -> Finding:
    import resource

    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    pids = int(Path("/proc/sys/kernel/pid_max").read_text())
    enough = files >= 10_000
    hint = "" if enough else "ulimit -n 20000 before `orchard env serve`"
    return Finding("room for 1,000 sandboxes", "present" if enough else "failed", f"{files} files, {pids} pids", hint)
