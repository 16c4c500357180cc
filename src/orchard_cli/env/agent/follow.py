"""A client that follows a command: lines of JSON as they come, until the command has ended."""

from __future__ import annotations

from .connection import Connection
from .execution import Execution
from .loop import Loop
from .output import encode

PING_S = 5.0
MAX_BACKLOG = 1 << 18


class Follower:
    """Has a place in the ring, not a copy of it: a slow client costs nothing, and is told what it missed."""

    def __init__(self, loop: Loop, connection: Connection, execution: Execution, after: int):
        self._loop, self._connection, self._execution = loop, connection, execution
        self._cursor, self._ended = after, False
        connection.start(200, "application/x-ndjson")
        connection.drained = self._pump
        connection.gone.append(self._leave)
        execution.followers.append(self._pump)
        self._timer = loop.after(PING_S, self._ping)
        self._pump()

    def _pump(self) -> None:
        if self._ended or self._connection.backlog > MAX_BACKLOG:
            return
        out = bytearray()
        for number, line in self._execution.ring.lines(self._cursor, self._execution.began):
            self._cursor = number
            out += line
            if len(out) > MAX_BACKLOG:
                break
        self._ended = self._execution.state == "done" and self._cursor >= self._execution.ring.next - 1
        if out:
            self._connection.chunk(bytes(out))
        if self._ended:
            self._leave()
            self._connection.chunk(b"")
            self._connection.done()
        elif out:
            self._connection.flush()

    def _ping(self) -> None:
        if not self._ended:
            self._timer = self._loop.after(PING_S, self._ping)
            if not self._connection.backlog:
                self._connection.chunk(encode({"type": "ping"}).encode() + b"\n")
                self._connection.flush()

    def _leave(self) -> None:
        self._ended = True
        self._timer.cancel()
        if self._pump in self._execution.followers:
            self._execution.followers.remove(self._pump)
