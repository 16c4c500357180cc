"""A way out of a place without any: a port inside, whose connections are carried over sockets from outside.

Whoever asks for the way keeps the connection of its request: one `?` goes out for each program that has connected, and
one descriptor comes back to carry it over, or `!` for none.
"""

from __future__ import annotations

import socket
from collections import deque

from .loop import Loop
from .pair import Pair
from .problem import Problem
from .transfer import Exchange

BACKLOG = 128
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
    loop = Loop()
    Way(loop, listener, control)
    loop.run()
    raise ConnectionError("carried")


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
