"""Sandboxes that outlive their driver: a door for the next one, and the time that it has to come."""

import os
import socket
import struct
from collections.abc import Callable
from contextlib import suppress

from ...agent.loop import Loop, Timer

NAME = "spawner.sock"  # in the folder of the environment, which is open to our user alone
CRED = struct.Struct("3i")  # pid, uid, gid of whoever connected, as the kernel saw it
TAKEN, REFUSED = b"y", b"n"
COMPLAINTS = 2  # a file, which the next driver may not open by itself: it need not be root
# Takes the next driver's ends of its two sockets, and its pid. False: another driver is still there.
Take = Callable[[int, int, int], bool]


class Succession:
    """`ended` is called when `keep_s` seconds have passed since `begin` and nobody came."""

    def __init__(self, loop: Loop, folder: int, take: Take, ended: Callable[[], None]):
        self._loop, self._take, self._ended = loop, take, ended
        self.keep_s = 0.0
        self._timer = Timer(None)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(f"/proc/self/fd/{folder}/{NAME}")
        self._listener.listen(4)
        self._listener.setblocking(False)
        loop.watch(self._listener.fileno(), self._accept)

    def begin(self) -> None:
        self._timer.cancel()
        self._timer = self._loop.after(self.keep_s, self._ended)

    def _accept(self) -> None:
        with suppress(OSError):
            sock, _ = self._listener.accept()
            with sock:
                sock.settimeout(1.0)
                pid, uid, _ = CRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CRED.size))
                _, ends, _, _ = socket.recv_fds(sock, 1, 2, socket.MSG_CMSG_CLOEXEC)
                if uid == os.getuid() and len(ends) == 2 and self._take(ends[0], ends[1], pid):
                    self._timer.cancel()
                    socket.send_fds(sock, [TAKEN], [COMPLAINTS])
                    return
                for fd in ends:
                    os.close(fd)
                sock.sendall(REFUSED)
