"""Output of one stream, bounded: the first and the last half of what may be kept, and how much there was."""

import os
from contextlib import suppress
from fcntl import F_SETPIPE_SZ, fcntl

from .loop import Loop, Timer


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

    def value(self) -> bytes:
        start = max(0, len(self._tail) - self._rest)
        return bytes(self._head + self._tail[start:])


class Stream:
    """The read end of a pipe that feeds a `Keep`."""

    CHUNK = 1 << 16
    FLOOD = 1 << 24  # bytes after which a stream is read in larger pieces, with pauses

    def __init__(self, fd: int, cap: int):
        os.set_blocking(fd, False)
        self.fd = fd
        self.keep = Keep(cap)
        self.open = True
        self.flooding = False

    def read(self, rounds: int = 1) -> bool:
        """Take what is there, at most `rounds` chunks; False when nothing more can be had now."""
        for _ in range(rounds):
            try:
                data = os.read(self.fd, 16 * self.CHUNK if self.flooding else self.CHUNK)
            except BlockingIOError:
                return False
            if not data:
                self.open = False
                return False
            self.keep.add(data)
        if not self.flooding and self.keep.seen > self.FLOOD:
            self.flooding = True
            with suppress(OSError):
                fcntl(self.fd, F_SETPIPE_SZ, 16 * self.CHUNK)
        return True


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
