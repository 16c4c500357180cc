"""Two sockets that are one connection."""

from __future__ import annotations

import socket
from collections.abc import Callable

from .loop import Loop

PIECE, ROOM = 1 << 16, 1 << 18


class Pair:
    """Two sockets; what comes from one goes to the other, until both have said all or are broken."""

    def __init__(self, loop: Loop, one: socket.socket, other: socket.socket, ended: Callable[[], None]):
        self._loop, self._ended = loop, ended
        self._ends = one, other
        self._due = bytearray(), bytearray()  # what each has still to be sent
        self._over, self._told = [False, False], [False, False]  # says no more; has been told that the other does not
        for end in self._ends:
            end.setblocking(False)
        self._watch()

    def _watch(self) -> None:
        """Without a wish no watch at all: the end of a connection would be told again and again."""
        for number, end in enumerate(self._ends):
            read, write = not self._over[number] and len(self._due[1 - number]) < ROOM, bool(self._due[number])
            if read or write:
                self._loop.watch(end.fileno(), self._ready, read=read, write=write)
            else:
                self._loop.unwatch(end.fileno())

    def _ready(self) -> None:
        for number in (0, 1):
            self._take(number)
        for number in (0, 1):
            self._give(number)
        if all(self._told):
            self._close()
        else:
            self._watch()

    def _take(self, number: int) -> None:
        due, lost = self._due[1 - number], self._told[1 - number]
        if self._over[number] or len(due) >= ROOM:
            return
        try:
            data = self._ends[number].recv(PIECE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
            self._break(number)
        if not lost:
            due += data
        self._over[number] = not data

    def _give(self, number: int) -> None:
        due = self._due[number]
        try:
            while due:
                del due[: self._ends[number].send(due)]
            if self._over[1 - number] and not self._told[number]:
                self._told[number] = True
                self._ends[number].shutdown(socket.SHUT_WR)
        except BlockingIOError:
            return
        except OSError:
            self._break(number)

    def _break(self, number: int) -> None:
        """It takes no more. What it said before that is still given to the other: it may be the reason."""
        self._told[number] = True
        self._due[number].clear()

    def _close(self) -> None:
        for end in self._ends:
            self._loop.unwatch(end.fileno())
            end.close()
        self._ended()
