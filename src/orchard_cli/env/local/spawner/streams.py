"""Output of one stream, bounded: the first and the last half of what may be kept, and how much there was."""

import os


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

    CHUNK = 65536

    def __init__(self, fd: int, cap: int):
        os.set_blocking(fd, False)
        self.fd = fd
        self.keep = Keep(cap)
        self.open = True

    def read(self, rounds: int = 1) -> bool:
        """Take what is there, at most `rounds` chunks; False when nothing more can be had now."""
        for _ in range(rounds):
            try:
                data = os.read(self.fd, self.CHUNK)
            except BlockingIOError:
                return False
            if not data:
                self.open = False
                return False
            self.keep.add(data)
        return True
