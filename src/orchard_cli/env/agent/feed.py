"""Bytes on their way to a command's standard input."""

from __future__ import annotations

import os
from collections.abc import Callable

from .loop import Loop
from .output import PIECE

STDIN_QUEUE = 1 << 20


class Feed:
    """Bytes on their way to a command's standard input; partial writes are queued."""

    def __init__(self, loop: Loop, fd: int, tty: bool):
        os.set_blocking(fd, False)
        self.fd, self.taken, self._loop, self._tty = fd, 0, loop, tty
        self._queue, self._ending, self.broken = bytearray(), False, False
        self.drained: list[Callable[[], None]] = []

    @property
    def room(self) -> int:
        return STDIN_QUEUE - len(self._queue)

    def add(self, data: bytes) -> None:
        self.taken += len(data)
        self._queue += data
        self._push()

    def end(self) -> None:
        if self._tty and not self._ending:
            self._queue += b"\x04"
        self._ending = True
        self._push()

    @property
    def ended(self) -> bool:
        return self._ending

    def _push(self) -> None:
        try:
            while self._queue:
                del self._queue[: os.write(self.fd, memoryview(self._queue)[: 1 << 12 if self._tty else PIECE])]
        except BlockingIOError:
            self._wait()
            return
        except OSError:
            self.broken, self._queue = True, bytearray()
        self._unwait()
        if self._ending and self.fd >= 0:
            self.close()
        self._let_in()

    def _let_in(self) -> None:
        calls, self.drained = self.drained, []
        for call in calls:
            call()

    _watching = -1

    def _wait(self) -> None:
        """A terminal's descriptor is watched for its output already; it gets one of its own for this."""
        if self._watching < 0:
            self._watching = os.dup(self.fd)
            self._loop.watch(self._watching, self._push, write=True, read=False)

    def _unwait(self) -> None:
        if self._watching >= 0:
            self._loop.unwatch(self._watching)
            os.close(self._watching)
            self._watching = -1

    def close(self) -> None:
        self._unwait()
        if self.fd >= 0 and not self._tty:
            os.close(self.fd)
        self.fd = -1
        self.broken = self.broken or not self._ending
        self._let_in()  # whoever waits for room learns that there will be none
