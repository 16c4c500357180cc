"""A command in a remote sandbox: followed from a cursor, fed, signalled, waited for. See `Execution`."""

import time
from base64 import b64decode
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from ...errors import SandboxError
from ..execution import Event, ExecResult
from ..service.bodies import ExecView, exec_result
from ..service.problem import of_view

WAIT_S = 50.0  # of one request; then it is asked again
PIECE = 1 << 20
Ask = Callable[..., bytes]
Frames = Callable[[str, int], Iterator[dict[str, Any]]]


class RemoteExecution:
    """Made by `RemoteSandbox.start`."""

    def __init__(self, ask: Ask, frames: Frames, view: ExecView, key: str):
        self.id, self.key = view.id, key
        self._ask, self._frames, self._path = ask, frames, f"/execs/{view.id}"

    def events(self, after: int = 0) -> Iterator[Event]:
        """A lost connection is resumed; raises `SandboxError` if the command was lost with its sandbox."""
        while True:
            try:
                for frame in self._frames(self.id, after):
                    after = frame["seq"]
                    if frame["type"] == "fault":
                        raise of_view(frame)
                    yield event(frame)
                    if frame["type"] == "exit":
                        return
            except SandboxError as error:
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

    def cancel(self) -> None:
        self._ask("POST", f"{self._path}/cancel")

    def wait(self, timeout_s: float | None = None) -> ExecResult:
        until = float("inf") if timeout_s is None else time.monotonic() + timeout_s
        while True:
            wait = min(WAIT_S, max(0.0, until - time.monotonic()))
            view = msgspec.json.decode(self._ask("GET", self._path, query={"wait": wait}), type=ExecView)
            if view.fault:
                raise of_view(view.fault)
            if view.result:
                return exec_result(view.result)
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
