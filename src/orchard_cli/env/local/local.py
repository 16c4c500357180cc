"""Sandboxes on this machine: `LocalEnv` and its sandboxes. The work is done by the spawner."""

import os
import posixpath
import shutil
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...errors import ConfigError, SandboxError
from ..sandbox import ExecResult, Sandbox, Spec
from .link import Link

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
BASE_ENV = {
    "PATH": PATH,
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "TMPDIR": "/tmp",
    "TAR_OPTIONS": "--no-same-owner",  # one user id is all that there is inside
}
BWRAP = (
    "--die-with-parent --new-session --as-pid-1 --clearenv --unshare-user --unshare-pid --unshare-ipc --unshare-uts"
    " --unshare-cgroup --uid 0 --gid 0 --hostname sandbox --chdir / --cap-drop ALL --cap-add CAP_LEASE --disable-userns"
).split()
GIT_ENV = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
APPLY = """
if command -v git >/dev/null; then exec git apply -p1 --whitespace=nowarn -; fi
diff=$(mktemp) && cat >"$diff" || exit
patch -p1 --batch --dry-run -i "$diff" && patch -p1 --batch --no-backup-if-mismatch -i "$diff"
code=$?; rm -f "$diff"; exit $code
"""


class LocalEnv:
    def __init__(self, isolation: str = "auto", network: str = "none") -> None:
        bwrap = shutil.which("bwrap")
        if bwrap is None:
            raise ConfigError(
                "bubblewrap is not installed", hint="apt-get install bubblewrap, or env.isolation=process"
            )
        self._base = Path(tempfile.mkdtemp(prefix="orchard-env-"))
        self._link = Link()
        self._closed = False
        self._facts = self._link.ask(
            "hello", base=str(self._base), bwrap=[bwrap, *BWRAP], root=os.geteuid() == 0, timeout_s=30
        )[0]

    def open(self, spec: Spec) -> Sandbox:
        return LocalSandbox(self._link, spec)

    def describe(self) -> dict[str, object]:
        return dict(self._facts)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._link.close()
            shutil.rmtree(self._base, ignore_errors=True)

    def __enter__(self) -> "LocalEnv":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class LocalSandbox:
    def __init__(self, link: Link, spec: Spec, source: str = ""):
        self._link, self._spec = link, spec
        limits = spec.limits
        reply, _ = link.ask(
            "create",
            tree=os.fspath(spec.tree.resolve()) if spec.tree else "",
            workdir=spec.workdir,
            image=spec.image,
            binds=[[os.fspath(bind.source.resolve()), bind.target] for bind in spec.binds],
            memory_mb=limits.memory_mb,
            disk_mb=limits.disk_mb,
            pids=limits.pids,
            cpus=limits.cpus,
            network=spec.network == "open",
            source=source,
        )
        self.id: str = reply["box"]
        self.workdir = spec.workdir
        self._env = {**BASE_ENV, **spec.env}
        self._closed = False
        self._lock = threading.Lock()

    def exec(
        self,
        command: str | Sequence[str],
        *,
        timeout_s: float = 60.0,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        max_bytes: int = 1_048_576,
        merge: bool = False,
    ) -> ExecResult:
        script = os.fsencode(command) if isinstance(command, str) else b""
        argv = {} if isinstance(command, str) else {"argv": list(command)}
        environment = {**self._env, **(env or {})}
        _refuse_nul(script, *environment, *environment.values(), *argv.get("argv", ()), cwd or "")
        reply, data = self._ask(
            "exec",
            script + stdin,
            script_bytes=len(script) if isinstance(command, str) else -1,
            cwd=posixpath.join(self.workdir, cwd or ""),
            env=environment,
            limit_s=timeout_s,
            max_bytes=max_bytes,
            merge=merge,
            **argv,
        )
        return _result(reply, data)

    def read(self, path: str, *, max_bytes: int = 16_777_216) -> bytes:
        return self._ask("read", path=path, cwd=self.workdir, max_bytes=max_bytes)[1]

    def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        self._ask("write", data, path=path, cwd=self.workdir, mode=mode)

    def list(self, path: str = ".") -> tuple[str, ...]:
        names = self._ask("list", path=path, cwd=self.workdir)[1].split(b"\0")
        return tuple(os.fsdecode(name) for name in names if name)

    def diff(self) -> str:
        return self._ask("diff", cwd="/")[1].decode()

    def patch(self, diff: str) -> None:
        if not diff.strip():
            return
        result = self.exec(APPLY, stdin=diff.encode(errors="surrogateescape"), env=GIT_ENV)
        if not result.ok:
            said = (result.stderr or result.stdout).decode(errors="replace").strip()
            raise SandboxError(
                f"the diff does not apply: {said[:2000]}",
                code="patch_failed",
                attributable="client",
                effect="none",
                retry="never",
            )

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._link.ask("close", box=self.id)

    def __enter__(self) -> "LocalSandbox":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _ask(self, op: str, body: bytes = b"", **header: Any) -> tuple[dict[str, Any], bytes]:
        return self._link.ask(op, body, box=self.id, **header)


def _refuse_nul(*words: str | bytes) -> None:
    for word in words:
        if (b"\0" if isinstance(word, bytes) else "\0") in word:  # type: ignore[operator]
            raise SandboxError(
                "a command, argument or variable holds a NUL byte",
                code="client.bad_argument",
                attributable="client",
                effect="none",
                retry="never",
            )


def _result(reply: dict[str, Any], data: bytes) -> ExecResult:
    kept, seen = reply["kept"], reply["seen"]
    return ExecResult(
        exit_code=reply["exit_code"],
        reason=reply["reason"],
        signal=reply["signal"],
        stdout=data[: kept[0]],
        stderr=data[kept[0] :],
        wall_s=reply["wall_s"],
        stdout_bytes=seen[0],
        stderr_bytes=seen[1] if len(seen) > 1 else 0,
        left_running=tuple(reply["left_running"]),
    )
