"""The agent itself: who may ask, and what each path means."""

from __future__ import annotations

import errno
import os
import socket
import time
from _operator import _compare_digest as same_digest  # what hmac.compare_digest is, without loading hashes

from . import carry, ports, transfer, trees, ways
from .children import Children
from .commands import Commands
from .connection import Connection
from .ground import Ground
from .loop import Loop, Timer
from .passage import Passage
from .problem import Json, Problem
from .quiet import Quiet
from .request import Request

RETURN_S, SHORT_S = 1.0, 0.1
FILES = {
    **{("GET", "files"): transfer.read, ("PUT", "files"): transfer.write, ("DELETE", "files"): transfer.remove},
    **{("GET", "list"): transfer.names, ("GET", "stat"): transfer.facts, ("POST", "mkdir"): transfer.make},
    **{("POST", "move"): transfer.move, ("GET", "tar"): trees.pack, ("PUT", "tar"): trees.unpack},
    **{("GET", "ports"): ports.relay, ("GET", "changed"): carry.collect, ("PUT", "changed"): carry.restore},
    ("GET", "ways"): ways.lead,
}


class Agent:
    """Serves one listening socket until told to stop. `base` is the environment that commands start from."""

    def __init__(
        self,
        listener: socket.socket | Passage,
        ground: Ground,
        *,
        sandbox: str,
        token: str,
        workdir: str,
        base: dict[str, str],
    ):
        self.loop = Loop()
        self.children = Children(self.loop, ground, workdir)
        self.commands = Commands(self.loop, ground, self.children, workdir=workdir, base=base)
        self._sandbox, self._token, self._began = sandbox, token.encode(), time.monotonic()
        self._clock = time.time() - self._began  # the least that the clock was ahead of that, as far as we have seen
        self._listener, self._returning = listener, Timer(None)
        self._connections: set[Connection] = set()
        listener.setblocking(False)
        self._listen()

    def run(self) -> None:
        self.loop.run()

    def _listen(self) -> None:
        self.loop.watch(self._listener.fileno(), self._accept)

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):  # told again and again until some are free
                self.loop.unwatch(self._listener.fileno())
                self.loop.after(SHORT_S, self._listen)
            return  # else: the client has left again
        self._connections.add(Connection(self, sock))

    def left(self, connection: Connection) -> None:
        self._connections.discard(connection)

    def admit(self, request: Request) -> None:
        given = request.headers.get("authorization", "").encode("latin-1")
        if not same_digest(given, b"Bearer " + self._token):
            raise Problem(401, "infra.identity_mismatch", "this is not the token of this sandbox", "infra")
        if request.headers.get("x-sandbox", self._sandbox) != self._sandbox:
            raise Problem(421, "infra.identity_mismatch", f"this is sandbox {self._sandbox}", "infra")

    def handle(self, connection: Connection, request: Request) -> None:
        self._clock = min(self._clock, time.time() - time.monotonic())
        place = request.parts[1] if request.parts[:1] == ["v1"] and len(request.parts) > 1 else ""
        operation = FILES.get((request.method, place))
        if place == "execs":
            self.commands.handle(connection, request)
        elif operation is not None:
            self.children.lend(connection, request, operation)
        elif place == "health":
            connection.reply(200, self._health())
        elif place == "quiet":
            self._expect_return()
            Quiet(self.loop, self.children, self._connections, connection, request)
        elif place == "identity":
            self._become(request)
            connection.reply(200, self._health())
        else:
            raise Problem(404, "client.no_such_path", "no such path")

    def _become(self, request: Request) -> None:
        """It came back from disk, perhaps as somebody else."""
        query = request.query
        self._sandbox, self._token = query.get("sandbox", self._sandbox), query.get("token", "").encode() or self._token
        self._returning.cancel()
        self.loop.renew()

    def _expect_return(self) -> None:
        """Back from disk, gVisor tells of one visitor and then of nobody, unless it is asked anew.

        Whoever would say that we are back may be gone: that must be seen, too.
        """
        self._returning.cancel()
        self.loop.renew()
        self._returning = self.loop.after(RETURN_S, self._expect_return)

    def _health(self) -> Json:
        with open("/proc/self/statm" if os.path.exists("/proc/self/statm") else os.devnull) as file:
            pages = (file.read().split() or ["0", "0"])[1]
        running = len(self.commands.running)
        return {"sandbox": self._sandbox, "since": self._since(), "running": running, "rss": int(pages) * 4096}

    def _since(self) -> float:
        """No file that was changed here bears an earlier time, whichever way the clock was set meanwhile."""
        return self._began + self._clock
