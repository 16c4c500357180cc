"""One sandbox on this machine, as the driver sees it. The work is done by the spawner."""

import os
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from ...errors import Effect, SandboxError
from ..channel import Channel
from ..execution import ExecResult, Execution, Terminal
from ..network.canary import Canary
from ..network.ways import Ways
from ..running import known, order, run, start
from ..sandbox import Sandbox
from ..wire import Dial
from .link import Reply
from .refusals import bad_argument, check_words, closed, no_live_fork, refused

GIT_ENV = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
APPLY = """
if command -v git >/dev/null; then exec git apply -p1 --whitespace=nowarn -; fi
diff=$(mktemp) && cat >"$diff" || exit
patch -p1 --batch --dry-run -i "$diff" && patch -p1 --batch --no-backup-if-mismatch -i "$diff"
code=$?; rm -f "$diff"; exit $code
"""


class Asked(Protocol):
    """Whoever made the sandboxes, and is asked for what their agents cannot do."""

    @property
    def pid(self) -> int: ...

    def ask(self, op: str, body: bytes = b"", *, wait_s: float, box: str, **header: Any) -> Reply: ...

    def passed(self, number: int) -> int: ...


class LocalSandbox:
    """See `Sandbox`. Any thread may use it; commands may run at the same time."""

    def __init__(
        self,
        link: Asked,
        box: str,
        workdir: str,
        door: tuple[str | Dial, str],  # where its agent listens, and the token that it asks for
        env: Mapping[str, str],
        fork: Callable[[str], Sandbox],
        way: str = "",
        live: Callable[[str], Sandbox] | None = None,  # a fork with all that runs, where that can be had
    ):
        self.id, self.workdir = f"{link.pid}-{box}", workdir
        self._link, self._box, self._env, self._fork, self._live = link, box, dict(env), fork, live
        self._channel = Channel(door[0], box, door[1], self._lost)
        self.way = way  # how a fork got its files: `sealed` (the origin's are shared), or `copied: ` and why
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
        login: bool = False,
        key: str = "",  # as for `start`
    ) -> ExecResult:
        options = {"timeout_s": timeout_s, "cwd": cwd, "max_bytes": max_bytes, "merge": merge}
        body = order(command, stdin, **self._variables(env, login), ring_bytes=0, **options)
        return run(self._open(), body, timeout_s, key)

    def start(
        self,
        command: str | Sequence[str],
        *,
        key: str = "",
        timeout_s: float = 60.0,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | None = b"",
        terminal: Terminal | None = None,
        max_bytes: int = 1_048_576,
        merge: bool = False,
        login: bool = False,
        no_output_timeout_s: float = 0.0,
        kill_grace_s: float = 0.5,
        spool_bytes: int = 0,
        paced: bool = False,
    ) -> Execution:
        return start(
            self._open(),
            command,
            key=key,
            timeout_s=timeout_s,
            cwd=cwd,
            **self._variables(env, login),
            stdin=stdin,
            terminal=terminal,
            max_bytes=max_bytes,
            merge=merge,
            no_output_timeout_s=no_output_timeout_s,
            kill_grace_s=kill_grace_s,
            spool_bytes=spool_bytes,
            paced=paced,
        )

    def _variables(self, env: Mapping[str, str] | None, login: bool) -> dict[str, Any]:
        """Ours are what a login shell begins with, else what commands get; their own come over either."""
        return {"env": env or {}, "login": self._env} if login else {"env": {**self._env, **(env or {})}}

    def executions(self) -> tuple[Execution, ...]:
        return known(self._open())

    def note(self, text: str) -> None:
        """What a driver that comes after us is to know of it, if sandboxes outlive theirs; kept in memory alone."""
        self._ask("note", note=text)

    def read(self, path: str, *, max_bytes: int = 16_777_216) -> bytes:
        check_words(path)
        return self._open().ask("GET", "/v1/files", query={"path": path, "most": max_bytes}, again=True).body

    def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        check_words(path)
        self._open().ask("PUT", "/v1/files", data, query={"path": path, "mode": f"{mode:o}"}, wait_s=600, again=True)

    def fetch(self, path: str) -> Iterator[bytes]:
        """A file of any size, in pieces."""
        check_words(path)
        yield from self._open().download("/v1/files", query={"path": path}, wait_s=600)

    def store(self, path: str, pieces: Iterable[bytes], *, mode: int = 0o644) -> None:
        """As `write`, for a file of any size: whole or not at all."""
        check_words(path)
        self._open().upload("/v1/files", pieces, query={"path": path, "mode": f"{mode:o}"}, wait_s=600)

    def list(self, path: str = ".") -> tuple[str, ...]:
        check_words(path)
        answer = self._open().ask("GET", "/v1/list", query={"path": path, "brief": 1}, again=True)
        return tuple(answer.record())

    def pack(self, path: str = ".") -> Iterator[bytes]:
        check_words(path)
        yield from self._open().download("/v1/tar", query={"path": path}, wait_s=600)

    def unpack(self, path: str, tar: Iterable[bytes]) -> None:
        check_words(path)
        self._open().upload("/v1/tar", tar, query={"path": path}, wait_s=600)

    def diff(self) -> str:
        _, data = self._ask("diff")
        return data.decode()

    def patch(self, diff: str) -> None:
        if not diff.strip():
            return
        result = self.exec(APPLY, stdin=os.fsencode(diff), env=GIT_ENV)
        if not result.ok:
            said = (result.stderr or result.stdout).decode(errors="replace").strip() or result.reason
            raise refused(f"the diff does not apply: {said[:2000]}", "patch_failed")

    def connect(self, port: int, *, timeout_s: float = 5.0) -> socket.socket:
        if not 0 < port < 65536:
            raise bad_argument(f"{port} is no port")
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

    def fork(self, *, processes: bool = False) -> Sandbox:
        if not processes:
            return self._fork(self._box)
        if self._live is None:
            raise no_live_fork()
        self._open()
        return self._live(self._box)

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._channel.close()
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

    def _open(self) -> Channel:
        if self._closed:
            raise closed("none")
        return self._channel

    def _lost(self, effect: Effect) -> SandboxError:
        """Why the agent does not answer any more: the spawner knows."""
        if self._closed:
            return closed(effect)
        try:
            self._ask("state", wait_s=10.0)
        except SandboxError as error:
            fault = error.fault
            return SandboxError(str(error), code=fault.code, attributable=fault.attributable, effect=effect)
        return SandboxError("the agent of the sandbox does not answer", code="infra.agent_lost", effect=effect)
