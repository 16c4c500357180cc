"""One sandbox on this machine, as the driver sees it. The work is done by the spawner."""

import os
import posixpath
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...errors import SandboxError
from ..network.canary import Canary
from ..network.ways import Ways
from ..sandbox import ExecResult, Sandbox
from .link import Link, Reply

GIT_ENV = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
APPLY = """
if command -v git >/dev/null; then exec git apply -p1 --whitespace=nowarn -; fi
diff=$(mktemp) && cat >"$diff" || exit
patch -p1 --batch --dry-run -i "$diff" && patch -p1 --batch --no-backup-if-mismatch -i "$diff"
code=$?; rm -f "$diff"; exit $code
"""
SLACK_S = 60.0  # what the spawner may take beyond a command's own time before we call it silent


class LocalSandbox:
    """See `Sandbox`. Any thread may use it; commands may run at the same time."""

    def __init__(self, link: Link, box: str, workdir: str, env: Mapping[str, str], fork: Callable[[str], Sandbox]):
        self.id, self.workdir = f"{link.process.pid}-{box}", workdir
        self._link, self._box, self._env, self._fork = link, box, dict(env), fork
        self.ways: Ways | None = None
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
        is_script = isinstance(command, str)
        script = os.fsencode(command) if isinstance(command, str) else b""
        argv = None if isinstance(command, str) else list(command)
        environment = {**self._env, **(env or {})}
        folder = posixpath.join(self.workdir, cwd or "")
        _check_words(script, folder, *(argv or ()), *environment, *environment.values())
        if argv == []:
            raise _bad_argument("the command is empty")
        reply, data = self._ask(
            "exec",
            script + stdin,
            wait_s=timeout_s + SLACK_S,
            script_bytes=len(script) if is_script else -1,
            argv=argv,
            cwd=folder,
            env=environment,
            limit_s=timeout_s,
            max_bytes=max_bytes,
            merge=merge,
        )
        return _result(reply, data)

    def read(self, path: str, *, max_bytes: int = 16_777_216) -> bytes:
        _check_words(path)
        reply, data = self._ask("read", path=path, max_bytes=max_bytes)
        return data[: reply["kept"][0]]

    def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        _check_words(path)
        self._ask("write", data, path=path, mode=mode)

    def list(self, path: str = ".") -> tuple[str, ...]:
        _check_words(path)
        names = self._ask("list", path=path)[1].split(b"\0")
        return tuple(os.fsdecode(name) for name in names if name)

    def diff(self) -> str:
        reply, data = self._ask("diff")
        return data[: reply["kept"][0]].decode()

    def patch(self, diff: str) -> None:
        if not diff.strip():
            return
        result = self.exec(APPLY, stdin=os.fsencode(diff), env=GIT_ENV)
        if not result.ok:
            said = (result.stderr or result.stdout).decode(errors="replace").strip() or result.reason
            raise SandboxError(
                f"the diff does not apply: {said[:2000]}",
                code="patch_failed",
                attributable="client",
                effect="none",
                retry="never",
            )

    def connect(self, port: int, *, timeout_s: float = 5.0) -> socket.socket:
        if not 0 < port < 65536:
            raise _bad_argument(f"{port} is no port")
        reply, _ = self._ask("connect", port=port, timeout_s=timeout_s)
        return socket.socket(fileno=self._link.passed(reply["number"]))

    def prove(self, canaries: Sequence[Canary]) -> None:
        """Raises `SandboxError(code="isolation_not_proven")` when any of `canaries` can be reached from inside."""
        self._ask("prove", canaries=list(canaries))

    def listen(self, port: int, canaries: Sequence[Canary]) -> socket.socket:
        """A socket that listens on a loopback port inside; what connects is accepted out here. Proves first."""
        reply, _ = self._ask("listen", port=port, canaries=list(canaries))
        return socket.socket(fileno=self._link.passed(reply["number"]))

    def adopt(self, ways: Ways) -> None:
        """What leads out from here on; programs find it by variables, which those given by the spec override."""
        self.ways, self._env = ways, {**ways.env, **self._env}

    def fork(self) -> Sandbox:
        return self._fork(self._box)

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
        if self.ways is not None:
            self.ways.close()
        try:
            self._ask("close")
        except SandboxError as error:
            if error.fault.code != "infra.spawner_lost":  # gone with all its sandboxes: nothing is left to close
                raise

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _ask(self, op: str, body: bytes = b"", *, wait_s: float = 600.0, **header: Any) -> Reply:
        return self._link.ask(op, body, wait_s=wait_s, box=self._box, **header)


def _check_words(*words: str | bytes) -> None:
    for word in words:
        if (b"\0" in word) if isinstance(word, bytes) else ("\0" in word):
            raise _bad_argument("a command, argument, variable or path holds a NUL byte")


def _bad_argument(message: str) -> SandboxError:
    return SandboxError(message, code="client.bad_argument", attributable="client", effect="none", retry="never")


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
