"""HTTP to the service: kept connections, any number of threads, and requests that may safely be sent again.

Every POST carries an Idempotency-Key, so that a connection lost at any moment is answered by asking once more: the
server does it at most once and gives the same answer (environments, 0.4).
"""

import http.client
import random
import secrets
import select
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any
from urllib.parse import quote, urlencode, urlsplit

from ...errors import ConfigError, SandboxError
from ..service.problem import error_of

# What a connection that broke looks like; also within the headers, which the library takes for their end.
LOST = (ConnectionError, http.client.BadStatusLine, http.client.CannotSendRequest, http.client.IncompleteRead)
AGAIN_S = 30.0  # how long an unreachable or busy server is asked again
BLOCK = 1 << 20
FULL_S = 3.0  # the same for one whose disk is full: that is seldom over soon
IDLE = 64  # connections kept


class Client:
    """`key` empty: the server asks for none. Raises `SandboxError` for faults, with the owner that the server named."""

    def __init__(self, url: str, key: str = "", *, again_s: float = AGAIN_S):
        try:
            parts = urlsplit(url)
            self._host, self._port = parts.hostname or "", parts.port
        except ValueError:
            parts, self._host = urlsplit(""), ""
        if parts.scheme not in ("http", "https") or not self._host or not (key.isascii() and key.isprintable()):
            raise ConfigError(f"`{url}` is not the address of a server", hint="env.url=http://HOST:PORT")
        self.url, self._again_s = url.rstrip("/"), again_s
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._prefix = parts.path.rstrip("/")
        self.headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._idle: deque[http.client.HTTPConnection] = deque(maxlen=IDLE)
        self._lock = threading.Lock()

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | IO[bytes] = b"",
        *,
        query: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 60.0,
        key: str = "",
    ) -> bytes:
        """The body of the answer, whole."""
        url, sent = self._asked(method, path, query, headers, key)
        connection, _, data = self._send(method, url, body, sent, timeout_s, whole=True)
        self._keep(connection)
        return data

    @contextmanager
    def stream(
        self,
        method: str,
        path: str,
        body: bytes | IO[bytes] = b"",
        *,
        query: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 60.0,
        key: str = "",
    ) -> Iterator[http.client.HTTPResponse]:
        """The answer, to be read piece by piece. What breaks while it is read is `infra.connection_lost`."""
        url, sent = self._asked(method, path, query, headers, key)
        connection, response, _ = self._send(method, url, body, sent, timeout_s)
        try:
            yield response
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise _lost(self.url, error, "unknown") from error
        finally:
            if response.isclosed():
                self._keep(connection)
            else:
                connection.close()

    def _asked(
        self, method: str, path: str, query: Mapping[str, object] | None, headers: Mapping[str, str] | None, key: str
    ) -> tuple[str, dict[str, str]]:
        """Address and headers as they are sent."""
        url = self._prefix + path + (f"?{urlencode(query, errors='surrogateescape')}" if query else "")
        sent = {**self.headers, **(headers or {})}
        if method == "POST":
            sent["Idempotency-Key"] = key or secrets.token_hex(16)
        return url, sent

    def _send(
        self,
        method: str,
        url: str,
        body: bytes | IO[bytes],
        headers: dict[str, str],
        timeout_s: float,
        *,
        whole: bool = False,
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse, bytes]:
        """Until there is an answer; a `whole` one has all of its body."""
        began, pause = time.monotonic(), 0.02
        until = began + self._again_s
        while True:
            connection = self._take(timeout_s)
            fresh = connection.sock is None
            try:
                response, data = _once(connection, method, url, body, headers, whole)
                if response.status < 400:
                    return connection, response, data
                fault = error_of(data, response.status)
                self._keep(connection)
                full = fault.fault.code == "infra.disk_full"
                if not _may_repeat(fault, body) or time.monotonic() > (min(until, began + FULL_S) if full else until):
                    raise fault
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                if not isinstance(error, LOST) or (fresh and time.monotonic() > until):
                    raise _lost(self.url, error, "none" if _refused(error) else "unknown") from error
                if not fresh:
                    continue  # the server had closed a kept connection
            time.sleep(pause * (0.5 + random.random()))
            pause = min(pause * 2, 2.0)

    def _take(self, timeout_s: float) -> http.client.HTTPConnection:
        while connection := self._kept():
            if connection.sock is not None and not _stale(connection.sock):
                connection.sock.settimeout(timeout_s)
                return connection
            connection.close()
        where: dict[str, Any] = {"timeout": timeout_s, "blocksize": BLOCK}
        if self._tls:
            return http.client.HTTPSConnection(self._host, self._port, context=self._tls, **where)
        return http.client.HTTPConnection(self._host, self._port, **where)

    def _kept(self) -> http.client.HTTPConnection | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _keep(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            full = len(self._idle) == IDLE
            if not full:
                self._idle.append(connection)
        if full:
            connection.close()

    def patience(self, seconds: float) -> None:
        """For how long an unreachable server is asked again, from now on."""
        self._again_s = seconds

    def close(self) -> None:
        with self._lock:
            while self._idle:
                self._idle.pop().close()


def path_of(sandbox: str) -> str:
    """Its path; a name that can be none is refused here, before it is taken for another path."""
    if not sandbox or "/" in sandbox or not sandbox.isprintable() or sandbox in (".", ".."):
        text = f"there is no sandbox `{sandbox}`: that cannot be a name" if sandbox else "the sandbox's name is empty"
        code = "client.no_such_sandbox"
        raise SandboxError(text, code=code, attributable="client", effect="none", retry="never")
    return f"/v1/sandboxes/{quote(sandbox, safe='')}"


def _once(
    connection: http.client.HTTPConnection,
    method: str,
    url: str,
    body: bytes | IO[bytes],
    headers: dict[str, str],
    whole: bool,
) -> tuple[http.client.HTTPResponse, bytes]:
    """The answer, and its body if `whole` or refused. Raises one of `LOST` if either did not come to its end."""
    if not isinstance(body, bytes):
        body.seek(0)
    try:
        connection.request(method, url, body, headers)
    except BaseException:  # also of whoever gives the pieces of a body: half of one is out
        connection.close()
        raise
    response = connection.getresponse()
    framed = response.status == 204 or response.chunked or response.length is not None
    if not framed:
        raise http.client.IncompleteRead(b"")
    return response, response.read() if whole or response.status >= 400 else b""


def _stale(sock: socket.socket) -> bool:
    """The server has closed it while it was idle (or said what nobody asked for): a stream could not be sent again."""
    ear = select.poll()
    ear.register(sock, select.POLLIN)
    return bool(ear.poll(0))


def _may_repeat(fault: SandboxError, body: bytes | IO[bytes]) -> bool:
    """Nothing was done, and the server says that asking again can help: it is busy, or cannot write just now."""
    if getattr(body, "begun", False):
        return False  # a stream is gone: what the server said of it is all that can be told
    return fault.fault.effect == "none" and fault.fault.retry == "same" and fault.fault.attributable == "infra"


def _refused(error: BaseException) -> bool:
    """The request never left this machine."""
    return isinstance(error, ConnectionRefusedError | OSError) and getattr(error, "errno", 0) in (111, 113, 101, -2, -3)


def _lost(url: str, error: BaseException, effect: Any) -> SandboxError:
    said = str(error) or type(error).__name__
    return SandboxError(
        f"the environment's server at {url} cannot be reached: {said}",
        code="infra.server_unreachable" if effect == "none" else "infra.connection_lost",
        effect=effect,
        retry="same",
        hint="is `orchard env serve` running there?",
    )
