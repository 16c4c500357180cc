"""The host's end of the line to a driver: one JSON object a line, each with a time limit."""

import json
import socket
from typing import Any

from .faults import BrowserFault

SLACK_S = 5.0  # beyond what the driver itself was given
MOST_BYTES = 32 * 2**20  # of one answer: a picture and a page's lines


class Wire:
    """Not thread-safe: one attempt uses it at a time. After a fault of ours it is of no more use."""

    def __init__(self, connection: socket.socket, token: str):
        self._socket = connection
        self._file = connection.makefile("rb")
        self._socket.sendall(token.encode() + b"\n")

    def ask(self, op: str, timeout_s: float, **args: Any) -> dict[str, Any]:
        """The driver's answer. Raises `BrowserFault`: the site's, or ours if the driver is silent or gone."""
        line = json.dumps({"op": op, "args": args, "timeout_s": timeout_s}).encode() + b"\n"
        try:
            self._socket.settimeout(timeout_s + SLACK_S)
            self._socket.sendall(line)
            answer = self._file.readline(MOST_BYTES)
        except TimeoutError as error:
            raise BrowserFault("infra", "driver_silent", f"the browser's driver did not answer `{op}`") from error
        except OSError as error:
            raise BrowserFault("infra", "driver_gone", f"the line to the browser's driver broke: {error}") from error
        if not answer.endswith(b"\n"):
            raise BrowserFault("infra", "driver_gone", "the browser's driver ended")
        try:
            said = json.loads(answer)
        except ValueError as error:
            raise BrowserFault("infra", "driver_error", "the browser's driver spoke nonsense") from error
        if fault := said.get("fault"):
            raise BrowserFault(fault["who"], fault["code"], fault["message"])
        value: dict[str, Any] = said["value"]
        return value

    def close(self) -> None:
        self._file.close()
        self._socket.close()
