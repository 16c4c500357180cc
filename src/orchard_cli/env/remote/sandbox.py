"""One sandbox behind the service, as the client sees it. See `Sandbox`; any thread may use it."""

import hashlib
import http.client
import os
import secrets
import socket
import threading
import time
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any, cast

import msgspec

from ...errors import SandboxError
from ..execution import ExecResult, Terminal
from ..service.bodies import ExecView, FileView, ForkBody, Names, Page, SandboxView, exec_result
from ..service.problem import of_view
from .attachment import Attachment
from .client import Client, path_of
from .execution import RemoteExecution, exec_body
from .landing import land
from .sent import Hashed, Pieces
from .tunnel import connect

WAIT_S = 50.0  # of one request; then it is asked again
SLACK_S = 90.0  # what the server may take beyond a command's own time
BLOCK = 1 << 20
GONE = ("client.no_such_sandbox", "client.gone", "client.no_such_exec")
Forget = Callable[[str], None]
Adopt = Callable[[SandboxView], "RemoteSandbox"]


class RemoteSandbox:
    def __init__(self, client: Client, view: SandboxView, adopt: Adopt, forget: Forget):
        self.id, self.workdir, self.view = view.id, view.workdir, view
        self._client, self._adopt, self._forget = client, adopt, forget
        self._path = path_of(view.id)
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
    ) -> ExecResult:
        body = exec_body(command, timeout_s, cwd, env, stdin, max_bytes, merge, login)
        until = time.monotonic() + timeout_s + SLACK_S
        wait = {"wait": min(timeout_s + 5.0, WAIT_S)}
        raw = self._ask("POST", "/execs", msgspec.json.encode(body), query=wait)
        while (view := msgspec.json.decode(raw, type=ExecView)).state == "running":
            if time.monotonic() > until:
                raise SandboxError(f"no end of `{view.id}` in {timeout_s + SLACK_S} s", code="infra.agent_silent")
            raw = self._ask("GET", f"/execs/{view.id}", query={"wait": WAIT_S})
        if view.fault:
            raise of_view(view.fault)
        assert view.result is not None
        return exec_result(view.result)

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
    ) -> RemoteExecution:
        key = key or secrets.token_hex(16)
        size = terminal or Terminal(0, 0)
        body = msgspec.structs.replace(
            exec_body(command, timeout_s, cwd, env, stdin or b"", max_bytes, merge, login),
            open_stdin=stdin is None,
            rows=size.rows,
            cols=size.cols,
            no_output_timeout_s=no_output_timeout_s,
            kill_grace_s=kill_grace_s,
            spool_bytes=spool_bytes,
            paced=paced,
        )
        view = msgspec.json.decode(self._ask("POST", "/execs", msgspec.json.encode(body), key=key), type=ExecView)
        return self._execution(view, key)

    def executions(self) -> tuple[RemoteExecution, ...]:
        views = msgspec.json.decode(self._ask("GET", "/execs"), type=tuple[ExecView, ...])
        return tuple(self._execution(view, view.id) for view in views)

    def _execution(self, view: ExecView, key: str) -> RemoteExecution:
        return RemoteExecution(self._ask, self.events, self._output, view, key)

    def attach(self, execution: RemoteExecution, *, after: int = 0, kill_on_detach: bool = False) -> Attachment:
        """One connection to a command for what it says after event `after` and for what it is told."""
        where = f"{self._path}/execs/{execution.id}/attach?after={after}&kill_on_detach={int(kill_on_detach)}"
        return Attachment(self._client.url + where, self._client.headers, after)

    def _output(self, exec_id: str, stream: str) -> Iterator[bytes]:
        return self._pieces(f"/execs/{exec_id}/output", stream=stream)

    def _pieces(self, where: str, **query: str) -> Iterator[bytes]:
        with self._named(), self._client.stream("GET", self._path + where, query=query, timeout_s=600.0) as response:
            while piece := response.read(BLOCK):
                yield piece
            if response.length:  # the library takes a connection that broke for the end of what was promised
                raise http.client.IncompleteRead(b"", response.length)

    def events(self, exec_id: str, after: int = 0) -> Iterator[dict[str, Any]]:
        """Frames of one command after a cursor, pings left out."""
        with self._client.stream("GET", f"{self._path}/execs/{exec_id}/events", query={"after": after}) as response:
            for line in response:
                frame = msgspec.json.decode(line)
                if "seq" in frame:
                    yield frame

    def read(self, path: str, *, max_bytes: int = 16_777_216) -> bytes:
        with self._named(), self._read(path) as response:
            size = int(response.headers.get("Content-Length") or 0)
            if size > max_bytes:
                raise SandboxError(
                    f"{path} has {size} bytes, more than {max_bytes}",
                    code="client.too_large",
                    attributable="client",
                    effect="none",
                    retry="never",
                )
            return response.read()

    def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        wanted = {"X-Content-SHA256": hashlib.sha256(data).hexdigest()}
        self._ask("PUT", "/files", data, query={"path": path, "mode": f"{mode:o}"}, headers=wanted)

    def fetch(self, path: str) -> Iterator[bytes]:
        return self._pieces("/files", path=path)

    def store(self, path: str, pieces: Iterable[bytes], *, mode: int = 0o644) -> None:
        query = {"path": path, "mode": f"{mode:o}"}
        self._ask("PUT", "/files", cast(IO[bytes], Pieces(pieces)), query=query, timeout_s=3600.0)

    def download(self, path: str, target: Path | str) -> int:
        """A file of any size to this machine, in pieces; bytes. See `land`."""
        return land(self.fetch(path), Path(target))

    def upload(self, source: Path | str, path: str, *, mode: int = 0o644) -> int:
        """A file of any size into the sandbox, in pieces; bytes. Raises `client.hash_mismatch` if it came otherwise."""
        with Path(source).open("rb") as file:
            body = Hashed(file, size := os.fstat(file.fileno()).st_size)
            length = {"Content-Length": str(size)}
            query = {"path": path, "mode": f"{mode:o}"}
            raw = self._ask("PUT", "/files", body, query=query, headers=length, timeout_s=3600.0)  # type: ignore[arg-type]
        view = msgspec.json.decode(raw, type=FileView)
        if view.sha256 != body.digest.hexdigest():
            raise SandboxError(
                f"{source} changed while it was sent", code="client.hash_mismatch", attributable="client"
            )
        return view.bytes

    def list(self, path: str = ".") -> tuple[str, ...]:
        found = msgspec.json.decode(self._ask("GET", "/names", query={"path": path}), type=Names)
        if found.raw:
            return tuple(os.fsdecode(name) for name in b64decode(found.raw).split(b"\0"))
        return found.names

    def pack(self, path: str = ".") -> Iterator[bytes]:
        return self._pieces("/tar", path=path)

    def unpack(self, path: str, tar: Iterable[bytes]) -> None:
        self._ask("PUT", "/tar", cast(IO[bytes], Pieces(tar)), query={"path": path}, timeout_s=3600.0)

    def diff(self) -> str:
        return os.fsdecode(self._ask("GET", "/diff", timeout_s=600.0))

    def patch(self, diff: str) -> None:
        if diff.strip():
            self._ask("POST", "/patch", os.fsencode(diff), timeout_s=600.0)

    def connect(self, port: int, *, timeout_s: float = 5.0) -> socket.socket:
        """See `Sandbox.connect`; the bytes travel over a WebSocket."""
        with self._named():
            return connect(f"{self._client.url}{self._path}/ports/{port}", self._client.headers, timeout_s)

    def fork(self, *, processes: bool = False) -> "RemoteSandbox":
        body = msgspec.json.encode(ForkBody(processes=processes))
        raw = self._ask("POST", "/fork", body, query={"wait": 60}, timeout_s=120.0)
        return self._adopt(msgspec.json.decode(raw, type=Page).items[0])

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
        try:
            with _Named(self.id):
                self._client.ask("DELETE", self._path, timeout_s=120.0)
        except SandboxError as error:
            if error.fault.code != "infra.sandbox_lost":  # nothing is left to close
                raise
        finally:
            self._forget(self.id)

    def __enter__(self) -> "RemoteSandbox":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _ask(self, method: str, path: str, body: bytes | IO[bytes] = b"", **how: Any) -> bytes:
        with self._named():
            return self._client.ask(method, self._path + path, body, **how)

    def _read(self, path: str) -> AbstractContextManager[http.client.HTTPResponse]:
        return self._client.stream("GET", f"{self._path}/files", query={"path": path}, timeout_s=600.0)

    def _named(self) -> "_Named":
        if self._closed:
            raise SandboxError("this sandbox is closed", code="client.closed", attributable="client", retry="never")
        return _Named(self.id)


class _Named:
    """A sandbox that we were given and that is no longer known was lost: no fault of whoever used it."""

    def __init__(self, id: str):
        self._id = id

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, SandboxError) and error.fault.code in GONE:
            raise SandboxError(
                f"sandbox {self._id} was lost: {error.fault.message}", code="infra.sandbox_lost", effect="unknown"
            ) from error
