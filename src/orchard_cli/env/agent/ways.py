"""A way out of a place without any: a port inside, whose connections are carried over sockets from outside.

Whoever asks for the way keeps the connection of its request: one `?` goes out for each program that has connected, and
one descriptor comes back to carry it over, or `!` for none.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from .loop import Loop
from .problem import Problem
from .transfer import Exchange

PIECE, ROOM, BACKLOG = 1 << 16, 1 << 18, 128
MOST = 256  # connections at once; others wait to be accepted


def lead(exchange: Exchange) -> None:
    """Answer with 101 once the port listens, then serve it until the other side leaves. Runs in a child."""
    port = int(exchange.request.parts[2])
    try:
        listener = socket.create_server(("127.0.0.1", port), backlog=BACKLOG)
    except OSError as error:
        raise Problem(409, "workload.port_taken", f"port {port} in the sandbox: {error.strerror}", "model") from None
    control = exchange.switch("ways")
    control.settimeout(None)
    let_go({listener.fileno(), control.fileno()})
    loop = Loop()
    Way(loop, listener, control)
    loop.run()
    raise ConnectionError("carried")


def let_go(kept: set[int]) -> None:
    """Of what the agent has open: others' connections would not end while we live."""
    for fd in map(int, os.listdir("/proc/self/fd")):
        if fd > 2 and fd not in kept:
            with suppress(OSError):  # that of the list itself
                os.close(fd)


class Way:
    def __init__(self, loop: Loop, listener: socket.socket, control: socket.socket):
        self._loop, self._listener, self._control = loop, listener, control
        self._waiting: deque[socket.socket] = deque()  # for a descriptor, in this order
        self._carried = 0
        listener.setblocking(False)
        loop.watch(control.fileno(), self._answered)
        loop.watch(listener.fileno(), self._accept)

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:
            return
        self._waiting.append(sock)
        self._control.sendall(b"?")
        if self._carried + len(self._waiting) >= MOST:
            self._loop.unwatch(self._listener.fileno())

    def _answered(self) -> None:
        try:
            data, found, _, _ = socket.recv_fds(self._control, 1, 1)
        except OSError:
            data = b""
        if not data or not self._waiting:
            self._loop.stop()
            return
        sock = self._waiting.popleft()
        self._carried += 1
        if found:
            Pair(self._loop, sock, socket.socket(fileno=found[0]), self._ended)
        else:
            sock.close()
            self._ended()

    def _ended(self) -> None:
        self._carried -= 1
        self._loop.watch(self._listener.fileno(), self._accept)


class Pair:
    """Two sockets; what comes from one goes to the other, until both have said all, or one is broken."""

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
        try:
            for number in (0, 1):
                self._take(number)
            for number in (0, 1):
                self._give(number)
        except OSError:
            self._close()
            return
        if all(self._told):
            self._close()
        else:
            self._watch()

    def _take(self, number: int) -> None:
        due = self._due[1 - number]
        if self._over[number] or len(due) >= ROOM:
            return
        try:
            data = self._ends[number].recv(PIECE)
        except BlockingIOError:
            return
        due += data
        self._over[number] = not data

    def _give(self, number: int) -> None:
        due = self._due[number]
        try:
            while due:
                del due[: self._ends[number].send(due)]
        except BlockingIOError:
            return
        if self._over[1 - number] and not self._told[number]:
            self._told[number] = True
            self._ends[number].shutdown(socket.SHUT_WR)

    def _close(self) -> None:
        for end in self._ends:
            self._loop.unwatch(end.fileno())
            end.close()
        self._ended()
