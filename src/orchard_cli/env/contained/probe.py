"""A contained sandbox that tries to get out, before any other is opened."""

import socket
import tempfile
from pathlib import Path

from ...errors import ConfigError, SandboxError
from ..local.probe import DEADLINE_S, TRY, Opens
from ..sandbox import Spec

ALWAYS = ("files", "pids", "network", "sysctl", "privileges", "writable")
# Debian 12's runsc (of 2022) refuses how coreutils 9 ask; most else works.
WEAK, LS = "ls -d / >/dev/null 2>&1 && echo ls", "`ls DIR` and `stat` of coreutils fail under this gVisor; a newer one?"


def prove(env: Opens, name: str, hint: str) -> dict[str, bool]:
    """Raises `ConfigError` that names what did not hold. `ls` may be missing: see `LS`."""
    with tempfile.NamedTemporaryFile(prefix="orchard-canary-") as canary, socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        arguments = [canary.name, str(listener.getsockname()[1]), str(Path("/proc/self/ns/pid").readlink())]
        try:
            with env.open(Spec()) as sandbox:
                result = sandbox.exec(["/bin/bash", "-c", TRY + WEAK, "probe", *arguments], timeout_s=DEADLINE_S)
        except SandboxError as error:
            raise ConfigError(f"no sandbox of {name} can be opened here: {error}", hint=hint) from error
    holds = set(result.stdout.decode(errors="replace").split())
    wanted = [*ALWAYS, *(["namespaces", "seccomp"] if name != "gvisor" else [])]  # gVisor has its own of both
    failed = [word for word in wanted if word not in holds]
    if failed:
        said = result.stderr.decode(errors="replace").strip()[-500:]
        raise ConfigError(f"isolation could not be proven with {name}: {', '.join(failed)} ({said})", hint=hint)
    return {**{word: True for word in wanted}, "ls": "ls" in holds}
