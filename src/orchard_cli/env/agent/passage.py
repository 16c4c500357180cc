"""How connections reach an agent that no address leads to: as descriptors, over one socket held from outside."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

VISIT_S = 120.0


class Passage:
    """Takes the place of a listening socket. When whoever holds the far end is gone, so are we, and all inside with us.

    `where` is the number of a descriptor that is such a socket, or a path to make one at: it takes one visitor and
    vanishes, so that nothing inside can find or forge it.
    """

    def __init__(self, where: str):
        if where.isdigit():
            self._control = socket.socket(fileno=os.dup(int(where)))
            return
        with socket.socket(socket.AF_UNIX) as door:
            door.bind(where)
            door.listen(1)
            door.settimeout(VISIT_S)  # whoever was to come may be gone
            self._control, _ = door.accept()
        self._control.settimeout(None)
        os.unlink(where)

    def line(self) -> str:
        """The first thing that is said: one line."""
        said = b""
        while not said.endswith(b"\n") and (data := self._control.recv(1)):
            said += data
        return said.decode().strip()

    def ready(self) -> None:
        self._control.sendall(b"!")

    def beat(self, begins: bool) -> None:
        """Tell outside that a process is being started, or has been: without an end of it we stand still."""
        with suppress(BlockingIOError):
            self._control.send(b"<" if begins else b">")

    def fileno(self) -> int:
        return self._control.fileno()

    def setblocking(self, flag: bool) -> None:
        self._control.setblocking(flag)

    def accept(self) -> tuple[socket.socket, None]:
        data, found, _, _ = socket.recv_fds(self._control, 1, 1)
        if not data:
            os._exit(0)
        if not found:
            raise ConnectionError("a connection got lost on its way in")
        os.set_inheritable(found[0], False)
        return socket.socket(fileno=found[0]), None
