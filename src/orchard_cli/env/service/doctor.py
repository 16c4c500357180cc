"""What this machine can isolate with, each tried and not only looked for, and what to install for more."""

import os
import platform
from dataclasses import dataclass
from pathlib import Path

from ...errors import ConfigError, installed
from ..contained.choose import TIERS, contained
from ..local.local import LocalEnv

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


def isolates(findings: list[Finding]) -> bool:
    """Whether any tier was proven."""
    return any(finding.state == "proven" for finding in findings)


def examine() -> list[Finding]:
    return [_bubblewrap(), *map(_contained, TIERS), _cgroups(), _overlay(), _packages(), _postgres(), _limits()]


def _bubblewrap() -> Finding:
    what = "bwrap (env.isolation=bwrap)"
    try:
        with LocalEnv("bwrap") as env:
            said = env.describe()
    except ConfigError as error:
        state = "missing" if "not installed" in str(error) else "failed"
        return Finding(what, state, str(error), error.hint)
    proven = said["proven"]
    assert isinstance(proven, dict)
    limits = ", ".join(f"{name} by {said[name]}" for name in ("memory", "pids", "cpus", "disk"))
    return Finding(what, "proven", f"tried from inside, held: {', '.join(sorted(proven))}; {limits}")


def _contained(tier: str) -> Finding:
    what = f"{tier} (env.isolation={tier})"
    try:
        with contained(tier) as env:
            said = env.describe()
    except ConfigError as error:
        state = "missing" if str(error).endswith("not installed") else "failed"
        return Finding(what, state, str(error), error.hint)
    proven = said["proven"]
    assert isinstance(proven, dict)
    limits = ", ".join(f"{name} by {said[name]}" for name in ("memory", "pids", "cpus", "disk"))
    weaker = f"; {said['weaker']}" if "weaker" in said else ""
    tried = f"tried from inside, held: {', '.join(sorted(proven))}"
    return Finding(what, "proven", f"{tried}; {limits}; forks copy {said['fork']}{weaker}")


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
