"""A command in a remote sandbox over one WebSocket: for terminals, where each key counts."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from ...errors import MissingExtra, SandboxError, installed
from ..execution import Event
from .execution import event
from .tunnel import refusal

KINDS: dict[int, Any] = {1: "out", 2: "err"}
PIECE = 1 << 16
OPEN_S = 10.0


class Attachment:
    """Iterate for events, up to `exit`. One thread may iterate while another one writes.

    Raises `SandboxError`: `infra.connection_lost` when the connection breaks off; attach again after the last event.
    """

    def __init__(self, url: str, headers: dict[str, str], after: int = 0):
        if not installed("websockets"):
            raise MissingExtra("attaching to a command in a remote sandbox", "websockets", "env")
        from websockets.exceptions import WebSocketException
        from websockets.sync.client import connect

        self._last = after  # the number of the last event
        address = "ws" + url.removeprefix("http")
        with ExitStack() as stack:
            try:
                self._wire = stack.enter_context(
                    connect(
                        address,
                        additional_headers=headers,
                        open_timeout=OPEN_S,
                        ping_timeout=None,  # a server that waits for the command is not gone for that
                        max_size=None,
                        compression=None,
                        proxy=None,
                    )
                )
            except (OSError, WebSocketException) as error:
                raise _lost(error) from error
            self._held = stack.pop_all()

    def __iter__(self) -> Iterator[Event]:
        from websockets.exceptions import ConnectionClosed

        while True:
            try:
                message = self._wire.recv()
            except ConnectionClosed as error:
                if error.rcvd and error.rcvd.code >= 4000:
                    raise refusal(error) from error
                raise _lost(error) from error
            if isinstance(message, bytes):
                self._last += 1
                yield Event(self._last, KINDS[message[0]], 0.0, message[9:], int.from_bytes(message[1:9], "big"))
                continue
            told = event(json.loads(message))
            self._last = told.seq
            yield told
            if told.type == "exit" or str(told.type) == "fault":
                return

    def write(self, data: bytes) -> None:
        for start in range(0, len(data), PIECE):
            self._send(b"\0" + data[start : start + PIECE])

    def resize(self, rows: int, cols: int) -> None:
        self._send(json.dumps({"resize": [rows, cols]}))

    def signal(self, number: int) -> None:
        self._send(json.dumps({"signal": number}))

    def close_stdin(self) -> None:
        self._send('{"eof":true}')

    def cancel(self) -> None:
        self._send('{"cancel":true}')

    def _send(self, message: str | bytes) -> None:
        from websockets.exceptions import ConnectionClosed

        try:
            self._wire.send(message)
        except (OSError, ConnectionClosed) as error:
            raise _lost(error) from error

    def close(self) -> None:
        self._held.close()

    def __enter__(self) -> "Attachment":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _lost(error: Exception) -> SandboxError:
    return SandboxError(f"the attached command: {error}", code="infra.connection_lost", effect="unknown", retry="same")
