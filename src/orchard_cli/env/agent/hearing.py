"""One stream on its way to whoever listens: into the ring, and whole into a file."""

from __future__ import annotations

from collections.abc import Callable

from .launch import write_all
from .output import Ring


class Hearing:
    """`most` bytes go to the file `spool`, if there is one; a full disk ends that, not the command."""

    def __init__(self, name: str, ring: Ring | None, spool: int, most: int, heard: Callable[[], None]):
        self._name, self._ring, self._spool, self._most, self._heard = name, ring, spool, most, heard
        self._seen = 0

    def add(self, data: bytes) -> None:
        if self._spool >= 0 and self._seen < self._most:
            try:
                write_all(self._spool, data[: self._most - self._seen])
            except OSError:
                self._spool = -1  # what comes later would seem to follow what is there
        if self._ring is not None:
            self._ring.add(self._name, data, self._seen)
        self._seen += len(data)
        self._heard()
