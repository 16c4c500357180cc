"""Requests to the agent of one sandbox: HTTP/1.1 over a Unix socket, from any thread."""

import errno
import json
import os
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote, urlencode

from ..errors import Attributable, Effect, SandboxError
from .wire import Dial, Wire

SHORT = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS)  # of what we need ourselves: no word about an agent
Lost = Callable[[Effect], SandboxError]


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def record(self) -> Any:
        return json.loads(self.body)


class Channel:
    """Idle connections are kept. `lost` says what happened when the agent cannot be reached any more."""

    def __init__(self, address: str | Dial, sandbox: str, token: str, lost: Lost):
        self._address, self._lost = address, lost
        self._identity = f"Authorization: Bearer {token}\r\nX-Sandbox: {sandbox}\r\n"
        self._idle: list[Wire] = []
        self._lock = threading.Lock()
        self._closed = False

    def ask(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        query: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
        wait_s: float = 60.0,
        again: bool = False,
    ) -> Answer:
        """One request, one whole answer. With `again`, doing it twice is harmless: a lost connection is tried anew.

        Raises `SandboxError`: what the agent says is wrong, or that it is lost or silent.
        """
        tries = 3 if again else 1
        effect: Effect = "none"
        while True:
            tries -= 1
            try:
                with self._wire(method, path, query, headers, wait_s, length=len(body), effect=effect) as (wire, send):
                    effect = "unknown"
                    send(body)
                    status, told = wire.head()
                    return _checked(Answer(status, told, b"".join(wire.pieces(told))))
            except ConnectionError:
                if not tries:
                    raise self._lost("unknown") from None

    @contextmanager
    def stream(
        self, method: str, path: str, *, query: Mapping[str, object] | None = None, wait_s: float = 60.0
    ) -> Iterator[tuple[Mapping[str, str], Iterator[bytes]]]:
        """Headers and pieces of an answer as it comes. Raises `ConnectionError` when it breaks off."""
        with self._wire(method, path, query, None, wait_s) as (wire, send):
            send(b"")
            status, told = wire.head()
            pieces = wire.pieces(told)
            if status >= 400:
                _checked(Answer(status, told, b"".join(pieces)))
            wire.last = True  # unless it is read to its end
            yield told, wire.kept(pieces)

    def download(self, path: str, *, query: Mapping[str, object], wait_s: float = 60.0) -> Iterator[bytes]:
        """The pieces of an answer. Raises `SandboxError` when it breaks off: it changed, or the agent died."""
        try:
            with self.stream("GET", path, query=query, wait_s=wait_s) as (_, pieces):
                yield from pieces
        except ConnectionError:
            self.ask("GET", "/v1/health", again=True)
            text = f"{query.get('path', 'what was read')} changed while it was read, or its reader was ended"
            raise SandboxError(text, code="client.file_changed", attributable="client") from None

    def upload(
        self, path: str, pieces: Iterable[bytes], *, query: Mapping[str, object], wait_s: float = 120.0
    ) -> Answer:
        """Send pieces of unknown length. Raises `SandboxError(code="client.broken_off")` where their source does."""
        try:
            with self._wire("PUT", path, query, {"Transfer-Encoding": "chunked"}, wait_s) as (wire, send):
                wire.last = True  # until all is sent: what they fail with leaves half a request on it
                for piece in _given(pieces):
                    if piece:
                        send(b"%x\r\n" % len(piece) + piece + b"\r\n")
                send(b"0\r\n\r\n")
                status, told = wire.head()
                return _checked(Answer(status, told, b"".join(wire.pieces(told))))
        except ConnectionError:
            raise self._lost("unknown") from None

    def upgrade(self, path: str, *, query: Mapping[str, object], wait_s: float) -> socket.socket:
        """A connection that speaks something else from now on, of which nothing has been read yet."""
        try:
            with self._wire("GET", path, query, None, wait_s, keep=False) as (wire, send):
                send(b"")
                status, told = wire.head(alone=True)
                if status != 101:
                    _checked(Answer(status, told, b"".join(wire.pieces(told))))
                wire.sock.settimeout(None)
                return socket.socket(fileno=os.dup(wire.sock.fileno()))
        except ConnectionError:
            raise self._lost("none") from None

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for wire in idle:
            wire.close()

    @contextmanager
    def _wire(
        self,
        method: str,
        path: str,
        query: Mapping[str, object] | None,
        headers: Mapping[str, str] | None,
        wait_s: float,
        *,
        length: int = 0,
        keep: bool = True,
        effect: Effect = "none",
    ) -> Iterator[tuple[Wire, Callable[[bytes], None]]]:
        """A connection on which the head is sent together with the first piece; kept if all went well."""
        wire = self._take(wait_s, effect)
        more = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        size = "" if "Transfer-Encoding" in (headers or {}) else f"Content-Length: {length}\r\n"
        target = f"{path}?{urlencode(query, quote_via=quote, errors='surrogateescape')}" if query else path
        head = f"{method} {target} HTTP/1.1\r\n{self._identity}{more}{size}\r\n".encode()

        def send(data: bytes) -> None:
            nonlocal head
            wire.sock.sendall(head + data)
            head = b""

        try:
            yield wire, send
        except TimeoutError:
            wire.close()
            raise _silent(wait_s, "unknown") from None
        except BaseException as error:
            # After a refusal the answer has been read to its end; after anything else nobody knows.
            self._give_back(wire) if isinstance(error, Refusal) and keep else wire.close()
            raise
        self._give_back(wire) if keep else wire.close()

    def _take(self, wait_s: float, effect: Effect) -> Wire:
        with self._lock:
            wire = self._idle.pop() if self._idle else None
        if wire is not None and not wire.stale():
            wire.patience(wait_s)
            return wire
        try:
            return Wire(self._address, wait_s)
        except TimeoutError:
            raise _silent(wait_s, effect) from None
        except OSError as error:
            if error.errno in SHORT:
                text = f"no connection to the agent of the sandbox could be made: {error.strerror}"
                raise SandboxError(text, code="infra.agent_unreachable", effect=effect) from None
            raise self._lost(effect) from None

    def _give_back(self, wire: Wire) -> None:
        with self._lock:
            if not self._closed and not wire.last and len(self._idle) < 64:
                self._idle.append(wire)
                return
        wire.close()


def _silent(wait_s: float, effect: Effect) -> SandboxError:
    return SandboxError(
        f"the agent of the sandbox gave no answer in {wait_s} s", code="infra.agent_silent", effect=effect
    )


def _given(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """What breaks off where they come from is no fault of the agent that they go to."""
    try:
        yield from pieces
    except (ConnectionError, TimeoutError) as error:
        text = f"what was to be sent broke off: {type(error).__name__} {error}"
        raise SandboxError(text, code="client.broken_off", attributable="client") from error


class Refusal(SandboxError):
    """The agent understood the request and will not do it."""


def _checked(answer: Answer) -> Answer:
    if answer.status < 400:
        return answer
    said = answer.record()
    attributable = cast(Attributable, said["attributable"])
    raise Refusal(
        said["message"],
        code=said["code"],
        attributable=attributable,
        effect=cast(Effect, said["effect"]),
        retry="never" if attributable == "client" else "fresh",
    )
