"""A command in a remote sandbox: followed from a cursor, fed, signalled, waited for. See `Execution`."""

import os
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from ...errors import SandboxError
from ..execution import Event, ExecResult
from ..running import GONE, LOST, lost_event
from ..service.bodies import ExecBody, ExecView, exec_result
from ..service.problem import of_view

WAIT_S = 50.0  # of one request; then it is asked again
PIECE = 1 << 20
Ask = Callable[..., bytes]
Frames = Callable[[str, int], Iterator[dict[str, Any]]]
Output = Callable[[str, str], Iterator[bytes]]


class RemoteExecution:
    """Made by `RemoteSandbox.start`."""

    def __init__(self, ask: Ask, frames: Frames, output: Output, view: ExecView, key: str):
        self.id, self.key = view.id, key
        self._ask, self._frames, self._output, self._path = ask, frames, output, f"/execs/{view.id}"

    def events(self, after: int = 0) -> Iterator[Event]:
        """A lost connection is resumed; the last one of a command that was lost with its sandbox says so."""
        while True:
            seen = after
            try:
                for frame in self._frames(self.id, after):
                    after = frame["seq"]
                    if frame["type"] == "fault":
                        raise of_view(frame)
                    yield event(frame)
                    if frame["type"] == "exit":
                        return
                if after == seen and self._view(0.0).state != "running":
                    return  # there is nothing after `after`
            except SandboxError as error:
                if error.fault.code in GONE:
                    yield lost_event(after)
                    return
                if error.fault.code != "infra.connection_lost":
                    raise

    def write(self, data: bytes) -> None:
        for start in range(0, len(data), PIECE):
            self._ask("POST", f"{self._path}/stdin", data[start : start + PIECE], timeout_s=3600.0)

    def close_stdin(self) -> None:
        self._ask("POST", f"{self._path}/stdin", query={"close": 1})

    def signal(self, number: int) -> None:
        self._ask("POST", f"{self._path}/signal", query={"number": number})

    def resize(self, rows: int, cols: int) -> None:
        self._ask("POST", f"{self._path}/resize", query={"rows": rows, "cols": cols})

    def spooled(self, stream: Literal["out", "err"] = "out") -> Iterator[bytes]:
        return self._output(self.id, stream)

    def cancel(self) -> None:
        self._ask("POST", f"{self._path}/cancel")

    def _view(self, wait_s: float) -> ExecView:
        return msgspec.json.decode(self._ask("GET", self._path, query={"wait": wait_s}), type=ExecView)

    def wait(self, timeout_s: float | None = None) -> ExecResult:
        until = float("inf") if timeout_s is None else time.monotonic() + timeout_s
        while True:
            wait = min(WAIT_S, max(0.0, until - time.monotonic()))
            try:
                view = self._view(wait)
            except SandboxError as error:
                if error.fault.code not in GONE:
                    raise
                return LOST
            if view.result:  # of a lost agent, beside the fault
                return exec_result(view.result)
            if view.fault:
                raise of_view(view.fault)
            if time.monotonic() >= until:
                raise SandboxError(
                    f"the command is still running after {timeout_s} s",
                    code="client.still_running",
                    attributable="client",
                    effect="unknown",
                )


def event(frame: dict[str, Any]) -> Event:
    known = dict(frame)
    data = known.pop("text").encode() if "text" in known else b64decode(known.pop("b64", ""))
    number, kind, offset = known.pop("seq"), known.pop("type"), known.pop("offset", 0)
    return Event(number, kind, 0.0, data, offset, known)


def exec_body(
    command: str | Sequence[str],
    timeout_s: float,
    cwd: str | None,
    env: Mapping[str, str] | None,
    stdin: bytes,
    max_bytes: int,
    merge: bool,
    login: bool,
) -> ExecBody:
    script = os.fsencode(command) if isinstance(command, str) else None
    text: str | None
    b64: str | None
    try:
        text, b64 = script.decode() if script is not None else None, None
    except UnicodeDecodeError:
        text, b64 = None, b64encode(script or b"").decode()
    return ExecBody(
        script=text,
        script_b64=b64,
        argv=None if isinstance(command, str) else tuple(command),
        cwd=cwd,
        env=dict(env or {}),
        stdin_b64=b64encode(stdin).decode(),
        timeout_s=timeout_s,
        max_bytes=max_bytes,
        merge=merge,
        login=login,
    )
