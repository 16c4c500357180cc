"""Isolation is proven, not assumed: what bubblewrap can do here, and a real sandbox that tries to get out."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from ...errors import ConfigError, SandboxError
from ..sandbox import Sandbox, Spec

FLAGS = (
    *("--die-with-parent", "--new-session", "--as-pid-1", "--clearenv", "--unshare-user", "--unshare-pid"),
    *("--unshare-ipc", "--unshare-uts", "--unshare-cgroup", "--uid", "0", "--gid", "0", "--hostname", "sandbox"),
    *("--chdir", "/", "--cap-drop", "ALL", "--cap-add", "CAP_LEASE"),
)
NEEDED = ("--as-pid-1", "--cap-drop", "--clearenv", "--info-fd", "--seccomp")
DEADLINE_S = 20.0
# Prints one word for each thing that holds. $1: a file of the host, $2: a port of the host's loopback, $3: a pid.
TRY = """
[ ! -e "$1" ] && [ ! -e /etc/shadow ] && echo files
[ "$(cd /proc && ls -d [0-9]* | wc -l)" -lt 10 ] && [ "$(readlink /proc/self/ns/pid)" != "$3" ] && echo pids
[ "$(tail -n +2 /proc/net/route | wc -l)" = 0 ] && ! (exec 3<>"/dev/tcp/127.0.0.1/$2") 2>/dev/null \\
    && echo network
! (echo "$(cat /proc/sys/vm/swappiness)" >/proc/sys/vm/swappiness) 2>/dev/null && echo sysctl
[ "$(grep -c '^Cap\\(Prm\\|Eff\\|Inh\\|Amb\\).*[1-9a-f]$' /proc/self/status)" = 0 ] && echo privileges
! unshare -U true 2>/dev/null && echo namespaces
[ "$(cat /proc/self/status /proc/1/status | grep -c '^Seccomp:.*2$')" = 2 ] && echo seccomp
touch /etc/probe && rm -r /var/log && mkdir /var/log && touch x && echo writable
"""


class Opens(Protocol):
    def open(self, spec: Spec) -> Sandbox: ...


def bubblewrap(hint: str) -> list[str]:
    """The command line of bubblewrap up to the view of the file system; `ConfigError` if it cannot be used."""
    path = shutil.which("bwrap", path=os.environ.get("PATH", "") + ":/usr/bin:/usr/local/bin")
    if path is None:
        raise ConfigError("bubblewrap is not installed, so nothing isolates what a model runs", hint=hint)
    try:
        offers = subprocess.run([path, "--help"], capture_output=True, text=True, timeout=DEADLINE_S).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"bubblewrap does not run: {error}", hint=hint) from error
    missing = [flag for flag in NEEDED if flag not in offers]
    if missing:
        raise ConfigError(f"this bubblewrap is too old: it lacks {', '.join(missing)}", hint=hint)
    # A nested user namespace would give back powers over whatever it contains; closed where bubblewrap can.
    return [path, *FLAGS, *(["--disable-userns"] if "--disable-userns" in offers else [])]


def prove(env: Opens, wanted: Sequence[str], hint: str, *, where: str = "on this machine", more: str = "") -> set[str]:
    """Open a sandbox and try what must fail, then run `more`: all words that held.

    Raises `ConfigError` that names those of `wanted` which did not.
    """
    with tempfile.NamedTemporaryFile(prefix="orchard-canary-") as canary, socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        arguments = [canary.name, str(listener.getsockname()[1]), str(Path("/proc/self/ns/pid").readlink())]
        try:
            with env.open(Spec()) as sandbox:
                result = sandbox.exec(["/bin/bash", "-c", TRY + more, "probe", *arguments], timeout_s=DEADLINE_S)
        except SandboxError as error:
            if error.fault.code == "isolation_not_proven":
                message = f"isolation could not be proven {where}: network ({error})"
                raise ConfigError(message, hint=hint) from error
            raise ConfigError(f"no sandbox can be opened {where}: {error}", hint=hint) from error
    holds = set(result.stdout.decode(errors="replace").split())
    failed = [name for name in wanted if name not in holds]
    if failed:
        said = result.stderr.decode(errors="replace").strip()[-500:]
        raise ConfigError(f"isolation could not be proven {where}: {', '.join(failed)} ({said})", hint=hint)
    return holds


def wanted(network: str, *, filtered: bool) -> list[str]:
    """What must hold of a sandbox of this machine's own kernel."""
    words = ["files", "pids", "sysctl", "privileges", "namespaces", "writable"]
    words += ["network"] if network != "host" else []
    return words + (["seccomp"] if filtered else [])  # some kernels have no filters: `describe` says so
