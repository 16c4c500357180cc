"""The spawner's event loop: requests in, replies out, and everything gone when the driver is gone.

Unless the driver asked for its sandboxes to outlive it: then another may come and take its place.
"""

import gc
import os
import select
import signal
import socket
import sys
import tarfile  # noqa: F401 - agents need it, and cannot import any more
from functools import partial

from ...agent.closed import clear
from ...agent.loop import Loop
from . import kernel
from .faults import Header
from .requests import Requests
from .succession import Succession
from .wire import PIECE, Frames, pack


class Server:
    """Owns the socket; what a request means is in `Requests`."""

    def __init__(self, wire: socket.socket, passage: int, driver: int):
        self.loop = Loop()
        self._requests = Requests(self.loop, passage, self._outlive, self._dismissed)
        self._passage, self._succession = passage, None
        self._driver = -1
        self._listen(wire, os.pidfd_open(driver))

    _succession: "Succession | None"
    _dismiss = False

    def _listen(self, wire: socket.socket, handle: int) -> None:
        self._wire, self._frames, self._outbox = wire, Frames(), bytearray()
        wire.setblocking(False)
        self.loop.watch(wire.fileno(), self._traffic)
        # A forked child of the driver may keep the socket open after the driver's death: watch the driver too.
        self._driver = handle
        self.loop.watch(handle, self._lost)

    def _outlive(self, folder: int, keep_s: float) -> None:
        if self._succession is None:
            self._succession = Succession(self.loop, folder, self._take, self.shut_down)
        self._succession.keep_s = keep_s

    def _dismissed(self) -> None:
        """The driver goes for good: nobody is to take its place."""
        self._dismiss = True

    def _lost(self) -> None:
        """The driver is gone. Its requests that are under way are done, and answered to nobody."""
        if self._succession is None or self._dismiss:
            self.shut_down()
            return
        self.loop.unwatch(self._wire.fileno())
        self.loop.unwatch(self._driver)
        os.close(self._driver)
        self._wire.close()
        self._driver = -1
        self._succession.begin()

    def _left(self) -> bool:
        """Whether our driver is gone, of which we may not have been told yet."""
        poll = select.poll()  # `select` knows no descriptor above 1023
        poll.register(self._driver, select.POLLIN)
        if poll.poll(0):
            return True
        try:
            return not self._wire.recv(1, socket.MSG_PEEK)
        except OSError as error:
            return not isinstance(error, BlockingIOError)

    def _take(self, wire: int, passage: int, driver: int) -> bool:
        if self._driver >= 0 and self._left():
            self._lost()
        if self._driver >= 0 or self._closing:
            return False
        try:
            handle = os.pidfd_open(driver)
        except OSError:
            return False  # it has died meanwhile
        os.dup2(passage, self._passage, inheritable=False)
        os.close(passage)
        self._listen(socket.socket(fileno=wire), handle)
        return True

    def _traffic(self) -> None:
        self._flush()
        try:
            data = self._wire.recv(PIECE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lost()
            return
        for header, body in self._frames.feed(data):
            self._requests.handle(header, body, partial(self._reply, self._wire, header["id"]))

    def _reply(self, wire: socket.socket, number: int, header: Header, body: bytes) -> None:
        if wire is not self._wire or self._driver < 0:
            return  # whoever asked is gone
        self._outbox += pack({"id": number, **header}, body)
        self._flush()

    def _flush(self) -> None:
        before = bool(self._outbox)
        try:
            while self._outbox:
                del self._outbox[: self._wire.send(memoryview(self._outbox)[: 1 << 20])]
        except BlockingIOError:
            pass
        except OSError:
            self._outbox.clear()
        if before and not self._closing:
            self.loop.watch(self._wire.fileno(), self._traffic, write=bool(self._outbox))

    _closing = False

    def shut_down(self) -> None:
        """Close every sandbox, then stop."""
        self._closing = True
        if self._driver >= 0:
            self.loop.unwatch(self._wire.fileno())
            self.loop.unwatch(self._driver)
        places = self._requests.places
        places.close_all(self.loop.stop) if places else self.loop.stop()

    def clean(self) -> None:
        places = self._requests.places
        if places is None:
            return
        places.cgroups.remove()
        if places.isolated:
            kernel.umount(places.base)
        clear(places.base)


def main() -> None:
    """Arguments: descriptors of the socket for messages and of that for descriptors, the driver's pid."""
    # Handled rather than ignored: what we start gets the defaults back by `execve` alone.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, lambda number, frame: None)
    wire = socket.socket(fileno=int(sys.argv[1]))
    wire.set_inheritable(False)
    passage = int(sys.argv[2])
    os.set_inheritable(passage, False)
    server = Server(wire, passage, int(sys.argv[3]))
    # Nothing may be imported from inside a sandbox; emptied here, since the lists cost a child ten times the time.
    sys.path[:], sys.meta_path[:] = [], []
    gc.freeze()  # a collection would touch, and so copy, what a forked child shares with us
    server.loop.run()
    server.clean()
