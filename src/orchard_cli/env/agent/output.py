"""What a command says: bounded, counted, numbered."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import time
from binascii import b2a_base64
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress

from .kinds import Any
from .loop import Loop, Timer
from .problem import Json

PIECE = 1 << 16
F_SETPIPE_SZ = 1031
encode = json.JSONEncoder(separators=(",", ":")).encode


class Keep:
    """Head and tail of a byte stream; `seen` counts all of it."""

    def __init__(self, cap: int):
        self._half = (cap + 1) // 2
        self._rest = cap - self._half
        self._head = bytearray()
        self._tail = bytearray()
        self.seen = 0

    def add(self, data: bytes) -> None:
        self.seen += len(data)
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail += data
            if len(self._tail) > 2 * self._rest + 65536:
                del self._tail[: len(self._tail) - self._rest]

    @property
    def size(self) -> int:
        return min(self.seen, self._half + self._rest)

    def value(self) -> bytes:
        start = max(0, len(self._tail) - self._rest)
        return bytes(self._head + self._tail[start:])


class Ring:
    """Events in order, numbered from 1; output beyond `cap` bytes pushes the oldest events out.

    A `paced` one keeps what nobody was given yet. Whoever fills it then waits while it is `full`; a part of `cap` stays
    for what a reader was given and may ask for again, when its connection broke.
    """

    EVENT = 100  # bytes that an event counts for beside its own

    def __init__(self, cap: int, paced: bool = False):
        self._cap, self._bytes, self._paced = cap, 0, paced
        self._events: deque[tuple[int, float, str, Any, int]] = deque()
        self._given, self._ahead = 0, 0  # the last that a reader was given; bytes of those after it
        self._waiting: list[Callable[[], None]] = []
        self.next = 1

    def add(self, kind: str, payload: Any, offset: int = 0) -> None:
        self._events.append((self.next, time.monotonic(), kind, payload, offset))
        self.next += 1
        self._bytes += _size(payload)
        self._ahead += _size(payload) + self.EVENT
        while self._bytes > self._cap and len(self._events) > 1:
            if self._paced and self._events[0][0] > self._given:
                return
            self._bytes -= _size(self._events.popleft()[3])

    @property
    def full(self) -> bool:
        return self._paced and self._ahead > self._cap // 4

    def waits(self, call: Callable[[], None]) -> bool:
        """Whether it is full; `call` is then called once there is room."""
        if self.full:
            self._waiting.append(call)
        return self.full

    def _give(self, number: int, payload: Any) -> None:
        if number > self._given:
            self._given = number
            self._ahead -= _size(payload) + self.EVENT
            if not self.full:
                calls, self._waiting = self._waiting, []
                for call in calls:
                    call()

    def events(self, after: int) -> Iterator[tuple[int, tuple[float, str, Any, int]]]:
        """(number, (time, kind, payload, offset)) of each event after `after`; what was pushed out is announced."""
        if self.next > after > self._given:  # the reader wants nothing up to there
            self._given, self._ahead = after, sum(_size(e[3]) + self.EVENT for e in self._events if e[0] > after)
        first = self._events[0][0] if self._events else self.next
        if after + 1 < first:
            yield first - 1, (time.monotonic(), "gap", {"from": after + 1, "to": first - 1}, 0)
        for number, *event in list(itertools.islice(self._events, max(0, after + 1 - first), None)):
            self._give(number, event[2])
            yield number, (event[0], event[1], event[2], event[3])

    def lines(self, after: int, began: float = 0.0) -> Iterator[tuple[int, bytes]]:
        """The same as lines of JSON, with times since `began`."""
        for number, (at, kind, payload, offset) in self.events(after):
            more = told(payload, offset) if isinstance(payload, bytes) else payload
            text = encode({"seq": number, "t": round(at - began, 6), "type": kind, **more})
            yield number, text.encode() + b"\n"


def _size(payload: Any) -> int:
    return len(payload) if isinstance(payload, bytes) else 0


def told(data: bytes, offset: int) -> Json:
    try:
        return {"offset": offset, "text": data.decode()}
    except UnicodeDecodeError:
        return {"offset": offset, "b64": b2a_base64(data, newline=False).decode()}


class Stream:
    """The read end of a pipe or terminal that feeds a `Keep`."""

    FLOOD = 1 << 24  # bytes after which a stream is read in larger pieces, with pauses

    def __init__(self, fd: int, cap: int, heard: Callable[[bytes], None] | None = None):
        os.set_blocking(fd, False)
        self.fd, self.open, self.flooding = fd, True, False
        self.keep = Keep(cap)
        self._heard = heard

    def read(self, rounds: int = 1) -> bool:
        """Take what is there, at most `rounds` chunks; False when nothing more can be had now."""
        for _ in range(rounds):
            try:
                data = os.read(self.fd, 16 * PIECE if self.flooding else PIECE)
            except BlockingIOError:
                return False
            except OSError:  # a terminal whose other side is closed
                data = b""
            if not data:
                self.open = False
                return False
            self.say(data)
        if not self.flooding and self.keep.seen > self.FLOOD:
            self.flooding = True
            with suppress(OSError):
                fcntl.fcntl(self.fd, F_SETPIPE_SZ, 16 * PIECE)
        return True

    def say(self, data: bytes) -> None:
        """As if it had come from there."""
        self.keep.add(data)
        if self._heard is not None:
            self._heard(data)


class Sink:
    """Empties the pipes of what was left running, slowly: a flood must not cost us a core."""

    def __init__(self, loop: Loop):
        self._loop = loop
        self._streams: list[Stream] = []
        self._timer: Timer | None = None

    def adopt(self, streams: list[Stream]) -> None:
        self._streams += streams
        if self._timer is None:
            self._empty()

    def _empty(self) -> None:
        for stream in self._streams:
            stream.read()
            if not stream.open:
                os.close(stream.fd)
        self._streams = [stream for stream in self._streams if stream.open]
        self._timer = self._loop.after(0.05, self._empty) if self._streams else None

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for stream in self._streams:
            os.close(stream.fd)
        self._streams = []
