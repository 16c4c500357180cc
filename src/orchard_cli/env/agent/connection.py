"""One client of the agent."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable

from .kinds import Protocol
from .loop import Loop
from .output import PIECE
from .problem import Json, Problem
from .request import Request

MAX_HEAD, MAX_BODY = 1 << 16, 1 << 28
PHRASES = {
    **{200: "OK", 201: "Created", 202: "Accepted", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found"},
    **{409: "Conflict", 410: "Gone", 413: "Too Large", 421: "Misdirected Request", 429: "Busy"},
}
encode = json.JSONEncoder(separators=(",", ":")).encode


class Host(Protocol):
    """What a connection needs of its agent."""

    loop: Loop

    def admit(self, request: Request) -> None:
        """Raises `Problem` for one who may not ask."""
        ...

    def handle(self, connection: Connection, request: Request) -> None: ...

    def left(self, connection: Connection) -> None: ...


class Connection:
    """One client. A request is answered before the next one is looked at."""

    def __init__(self, host: Host, sock: socket.socket):
        sock.setblocking(False)
        self.sock, self.fd, self.closed = sock, sock.fileno(), False
        self._host, self._in, self._out = host, bytearray(), bytearray()
        self._request: Request | None = None  # whose body is not here yet
        self._busy, self._paused, self._closing = False, False, False
        self._watched: tuple[bool, bool] | None = None
        self.gone: list[Callable[[], None]] = []  # called when the client has left
        self.drained: Callable[[], None] | None = None
        self.raw: Callable[[bytes], None] | None = None  # takes what comes in, once this is no HTTP any more
        self._watch()

    def _watch(self) -> None:
        wanted = (not self._paused, bool(self._out))
        if wanted != self._watched and not self.closed:
            self._watched = wanted
            self._host.loop.watch(self.fd, self._ready, read=wanted[0], write=wanted[1])

    def pause(self) -> None:
        """Take nothing in for a while."""
        self._paused = True
        self._watch()

    def resume(self) -> None:
        self._paused = False
        self._watch()

    # -- in

    def _ready(self) -> None:
        if self._out:
            self.flush()
        elif self._paused:
            self._hung_up()
        if self._paused or self.closed:
            return
        try:
            data = self.sock.recv(PIECE if self._request is None else 16 * PIECE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data or len(self._in) > MAX_BODY + MAX_HEAD:
            self.close()
        elif self.raw is not None:
            self.raw(data)
        else:
            self._in += data
            self._advance()

    def _hung_up(self) -> None:
        """Only this is told unasked, and again and again. What the client sent before it left is still to be read."""
        self._host.loop.unwatch(self.fd)
        calls, self.gone = self.gone, []
        for call in calls:
            call()

    def _advance(self) -> None:
        while not self._busy and not self.closed and self.raw is None:
            try:
                if not self._one():
                    return
            except Problem as problem:
                self.problem(problem)

    def _one(self) -> bool:
        """Handle one request if it is complete."""
        request = self._request or self._head()
        if request is None:
            return False
        self._request = request
        if not request.streamed:
            if len(self._in) < request.length:
                return False
            request.body = bytes(self._in[: request.length])
            del self._in[: request.length]
        self._request, self._busy = None, True
        self._host.handle(self, request)
        return True

    def _head(self) -> Request | None:
        end = self._in.find(b"\r\n\r\n")
        if end < 0:
            if len(self._in) > MAX_HEAD:
                self._closing = True
                raise Problem(400, "client.bad_request", "the head of this request is too long")
            return None
        self._closing = True  # until the request has been understood, nobody knows where it ends
        request = Request(bytes(self._in[:end]))
        del self._in[: end + 4]
        self._host.admit(request)
        if not request.streamed and (request.length > MAX_BODY or request.chunked):
            raise Problem(413, "client.too_large", f"at most {MAX_BODY} bytes, and their number must be told")
        self._closing = request.headers.get("connection", "").lower() == "close"
        if request.headers.get("expect"):
            self.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        return request

    # -- out

    def reply(self, status: int, record: Json, raw: bytes | None = None) -> None:
        """Answer and go on. With `raw`: the record is one line, the bytes follow."""
        text = encode(record).encode()
        if raw is not None:
            text += b"\n" + raw
        self.start(status, "application/json", len(text))
        self._out += text
        self.done()

    def problem(self, problem: Problem) -> None:
        self.reply(problem.status, problem.record)

    def refuse(self, problem: Problem) -> None:
        """The last answer here. The rest of the request is let go by: its sender may listen only after that."""
        text = encode(problem.record).encode()
        self._closing, self.raw = True, lambda data: None
        self.start(problem.status, "application/json", len(text))
        self.send(text)

    def start(self, status: int, kind: str, length: int = -1) -> None:
        size = f"Content-Length: {length}" if length >= 0 else "Transfer-Encoding: chunked"
        close = "Connection: close\r\n" if self._closing else ""
        head = f"HTTP/1.1 {status} {PHRASES.get(status, 'Other')}\r\nContent-Type: {kind}\r\n{size}\r\n{close}\r\n"
        self._out += head.encode()

    def chunk(self, data: bytes) -> None:
        self._out += b"%x\r\n%b\r\n" % (len(data), data)

    def send(self, data: bytes) -> None:
        self._out += data
        self.flush()

    def done(self) -> None:
        self._busy = False
        self.gone.clear()
        self.drained = None
        self.flush()
        if not self.closed and self._in and self.raw is None:
            self._host.loop.after(0.0, self._advance)

    @property
    def backlog(self) -> int:
        return len(self._out)

    def finish(self) -> None:
        """Close once all has been taken."""
        self._closing, self._busy = True, False
        self.flush()

    def flush(self) -> None:
        try:
            while self._out:
                del self._out[: self.sock.send(memoryview(self._out)[: 1 << 20])]
        except BlockingIOError:
            pass
        except OSError:
            self.close()
        if self.closed:
            return
        self._watch()
        if not self._out:
            if self._closing and not self._busy:
                self.close()
            elif self.drained is not None:
                self.drained()

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._host.loop.unwatch(self.fd)
            self.sock.close()
            self._host.left(self)
            calls, self.gone = self.gone, []
            for call in calls:
                call()

    # -- lent to a child

    def hand_over(self, *, everything: bool) -> bytes:
        """A child has it from now on. With `everything`, it goes on reading: returns what has come already."""
        ahead = bytes(self._in) if everything else b""
        if everything:
            self._in.clear()
        self._host.loop.unwatch(self.fd)
        self._watched = None
        return ahead

    def take_back(self, usable: bool) -> None:
        if self.closed:
            return
        if usable and not self._closing:
            self._watch()
            self.done()
        else:
            self.close()
