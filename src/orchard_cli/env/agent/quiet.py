"""Before the sandbox is put on disk with all that runs in it: every connection ends, and whoever carries one.

Commands go on; whoever waits for one asks again when the sandbox is back. A transfer that is under way may end first.
"""

from __future__ import annotations

import time
from collections.abc import Collection

from .children import Children
from .connection import Connection
from .loop import Loop
from .request import Request

AGAIN_S = 0.01
ENDLESS = ("ways", "ports")  # these last as long as their client


class Quiet:
    """Answers `connection` when it is the only one left."""

    def __init__(
        self,
        loop: Loop,
        children: Children,
        connections: Collection[Connection],
        connection: Connection,
        request: Request,
    ):
        self._loop, self._children, self._connections, self._last = loop, children, connections, connection
        self._until = time.monotonic() + request.number("wait_s", 0.0)
        children.end_lent(ENDLESS)
        self._look()

    def _look(self) -> None:
        if self._last.closed:
            return
        if self._children.lent:
            if time.monotonic() > self._until:
                self._children.end_lent()
            self._loop.after(AGAIN_S, self._look)
            return
        for other in tuple(self._connections):
            if other is not self._last:
                other.close()
        self._loop.renew()
        self._last.reply(200, {})
