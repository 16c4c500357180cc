"""A kept-alive connection from the host to the services in a sandbox."""

import http.client
import json
import socket
from dataclasses import dataclass
from typing import Any

from orchard_cli.env.sandbox import Sandbox
from orchard_cli.errors import Attributable, SandboxError

PORT = 8700
TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Said:
    status: int
    text: str
    proof: str = ""


class Link:
    """Not for several threads at once. Raises `SandboxError(code="world_gone")` where nothing answers."""

    def __init__(self, sandbox: Sandbox, *, attributable: Attributable = "infra"):
        self._owner: Attributable = attributable
        try:
            connection = sandbox.connect(PORT, timeout_s=TIMEOUT_S)
        except SandboxError as error:
            if error.fault.code != "connect_refused":
                raise
            raise self._gone(error) from error
        connection.settimeout(TIMEOUT_S)
        if connection.family != socket.AF_UNIX:  # a tunnel to a served sandbox is one
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # head and body go out in two parts
        self._http = http.client.HTTPConnection("127.0.0.1", PORT)
        self._http.auto_open = 0  # a new connection could only come from the host itself
        self._http.sock = connection

    def ask(self, path: str, body: Any, headers: dict[str, str] | None = None) -> Said:
        """`POST path` with JSON, and what came back."""
        data = json.dumps(body).encode()
        try:
            self._http.request("POST", path, data, {"Content-Type": "application/json", **(headers or {})})
            response = self._http.getresponse()
            text = response.read().decode()
        except (OSError, http.client.HTTPException, UnicodeDecodeError) as error:
            raise self._gone(error) from error
        return Said(response.status, text, response.getheader("X-Proof") or "")

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> "Link":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _gone(self, error: Exception) -> SandboxError:
        why = f"the services do not answer: {type(error).__name__}: {error}"
        return SandboxError(why, code="world_gone", attributable=self._owner)
