"""A terminal, or any command, over a WebSocket (RFC 6455): what the command says goes out, keys and sizes come in.

Out: binary frames of a channel byte (1 out, 2 err), the offset in eight bytes, and data; text frames of JSON for all
other events. In: binary frames of a channel byte 0 and data for its input; text frames
`{"resize": [rows, cols]}`, `{"signal": n}`, `{"eof": true}`, `{"cancel": true}`.
"""

from __future__ import annotations

import json
from binascii import b2a_base64

from .connection import Connection
from .execution import Execution
from .kinds import Any
from .problem import Problem
from .request import Request

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
MAX_MESSAGE = 1 << 20
MAX_BACKLOG = 1 << 18
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
CHANNELS = {"out": 1, "err": 2}


class Broken(Exception):
    """The client does not keep to the protocol; the first argument is the close code."""


def frame(kind: int, data: bytes) -> bytes:
    """A whole message as an unmasked frame."""
    size = len(data)
    if size < 126:
        head = bytes((0x80 | kind, size))
    elif size < 65536:
        head = bytes((0x80 | kind, 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((0x80 | kind, 127)) + size.to_bytes(8, "big")
    return head + data


class Frames:
    """Cuts what a client sends into messages; control frames come between the parts of others."""

    def __init__(self) -> None:
        self._buffer, self._message, self._kind = bytearray(), bytearray(), 0

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        self._buffer += data
        messages = []
        while (one := self._frame()) is not None:
            last, kind, payload = one
            if kind >= CLOSE:
                if not last or len(payload) > 125:
                    raise Broken(1002)
                messages.append((kind, payload))
                continue
            if (kind == 0) != (self._kind != 0):
                raise Broken(1002)
            self._kind = self._kind or kind
            self._message += payload
            if len(self._message) > MAX_MESSAGE:
                raise Broken(1009)
            if last:
                messages.append((self._kind, bytes(self._message)))
                self._message, self._kind = bytearray(), 0
        return messages

    def _frame(self) -> tuple[bool, int, bytes] | None:
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        if buffer[0] & 0x70 or not buffer[1] & 0x80 or buffer[0] & 0x0F not in (0, TEXT, BINARY, CLOSE, PING, PONG):
            raise Broken(1002)
        size, start = buffer[1] & 0x7F, 2
        if size >= 126:
            start += 2 if size == 126 else 8
            size = int.from_bytes(buffer[2:start], "big")
            if len(buffer) < start:
                return None
        if size > MAX_MESSAGE:
            raise Broken(1009)
        end = start + 4 + size
        if len(buffer) < end:
            return None
        mask, masked = bytes(buffer[start : start + 4]), bytes(buffer[start + 4 : end])
        last, kind = bool(buffer[0] & 0x80), buffer[0] & 0x0F
        del buffer[:end]
        key = int.from_bytes((mask * (size // 4 + 1))[:size], "big")
        return last, kind, (int.from_bytes(masked, "big") ^ key).to_bytes(size, "big")


def accept_key(key: str) -> str:
    try:
        from _sha1 import sha1
    except ImportError:
        from hashlib import sha1
    return b2a_base64(sha1(key.encode() + GUID).digest(), newline=False).decode()


class Attachment:
    """One client at one command. Several may be attached; leaving does not end the command unless asked for."""

    def __init__(self, connection: Connection, request: Request, execution: Execution):
        key = request.headers.get("sec-websocket-key", "")
        if request.headers.get("upgrade", "").lower() != "websocket" or not key:
            raise Problem(400, "client.bad_request", "this path speaks WebSocket")
        self._connection, self._execution, self._frames = connection, execution, Frames()
        self._cursor = int(request.number("after", 0))
        self._kill = request.query.get("kill_on_detach") == "1"
        self._ended = False
        switch = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        connection.raw, connection.drained = self._incoming, self._pump
        connection.gone.append(self._left)
        execution.followers.append(self._pump)
        connection.send(f"{switch}Sec-WebSocket-Accept: {accept_key(key)}\r\n\r\n".encode())
        self._pump()

    def _pump(self) -> None:
        """Send events while the client takes them."""
        if self._ended or self._connection.backlog > MAX_BACKLOG:
            return
        out = bytearray()
        for number, (_, kind, payload, offset) in self._execution.ring.events(self._cursor):
            self._cursor = number
            if kind in CHANNELS:
                out += frame(BINARY, bytes((CHANNELS[kind],)) + offset.to_bytes(8, "big") + payload)
            else:
                out += frame(TEXT, json.dumps({"seq": self._cursor, "type": kind, **payload}).encode())
            if kind == "exit":
                out += frame(CLOSE, (1000).to_bytes(2, "big"))
                self._ended = True
            if len(out) + self._connection.backlog > MAX_BACKLOG:
                break
        if out:
            self._connection.send(bytes(out))
        if self._ended:
            self._connection.finish()

    def _incoming(self, data: bytes) -> None:
        try:
            for kind, payload in self._frames.feed(data):
                self._message(kind, payload)
        except Broken as broken:
            self._goodbye(broken.args[0])

    def _message(self, kind: int, payload: bytes) -> None:
        if kind == CLOSE:
            self._goodbye(1000)
        elif kind == PING:
            self._connection.send(frame(PONG, payload))
        elif kind == BINARY:
            self._input(payload)
        elif kind == TEXT:
            self._control(payload)

    def _input(self, payload: bytes) -> None:
        feed = self._execution.feed
        if payload[:1] != b"\0" or feed is None:
            raise Broken(1008)
        if not feed.ended and not feed.broken:
            feed.add(payload[1:])
            if feed.room <= 0:  # no more from this client until the command has taken something
                self._connection.pause()
                feed.drained.append(self._connection.resume)

    def _control(self, payload: bytes) -> None:
        try:
            message: dict[str, Any] = json.loads(payload)
            if "resize" in message and self._execution.state == "running":  # else it crossed with the end
                self._execution.resize(*message["resize"])
            if "signal" in message:
                self._execution.signal(int(message["signal"]))
            if message.get("eof") and self._execution.feed is not None:
                self._execution.feed.end()
            if message.get("cancel"):
                self._execution.stop("cancelled")
        except (ValueError, TypeError, AttributeError, OverflowError, RecursionError, Problem, OSError):
            raise Broken(1008) from None

    def _goodbye(self, code: int) -> None:
        self._ended = True
        self._connection.send(frame(CLOSE, code.to_bytes(2, "big")))
        self._connection.finish()

    def _left(self) -> None:
        if self._pump in self._execution.followers:
            self._execution.followers.remove(self._pump)
        if self._kill:
            self._execution.stop("cancelled")
