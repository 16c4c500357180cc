"""A network that loses, tears and repeats: between a client and a server that listens on a Unix socket or a port."""

import random
import select
import socket
import tempfile
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

Address = str | tuple[str, int]
KINDS = ("request torn", "request repeated", "answer lost", "answer torn")
SHARE = 0.05  # of the requests, of each kind


class Relay:
    """`done` counts what was done to whom. Threads end with their connections, the listener with `close`."""

    def __init__(self, server: Address, seed: int, *, kinds: Sequence[str] = KINDS, share: float = SHARE):
        self._server, self._dice, self._kinds, self._share = server, random.Random(seed), kinds, share
        self.done: Counter[str] = Counter()
        self.calm = False
        self._open: set[socket.socket] = set()
        if isinstance(server, str):
            self._folder = tempfile.TemporaryDirectory()
            self.address: Address = f"{self._folder.name}/s"
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(self.address)
            self._listener.listen(256)
        else:
            self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
            self.address = self._listener.getsockname()[:2]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _connect(self) -> socket.socket:
        family = socket.AF_UNIX if isinstance(self._server, str) else socket.AF_INET
        sock = socket.socket(family)
        try:
            sock.connect(self._server)
        except BaseException:
            sock.close()
            raise
        return sock

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError), self._connect() as server:
            self._open |= {client, server}
            try:
                self._carry(client, server)
            finally:
                self._open -= {client, server}

    def _carry(self, client: socket.socket, server: socket.socket) -> None:
        tear = False
        while True:
            for sock in select.select([client, server], [], [])[0]:
                data = sock.recv(1 << 16)
                if not data:
                    return
                if sock is server:
                    client.sendall(data[: self._cut(data)] if tear else data)
                    if tear:
                        return
                    continue
                kind = self._what()
                self.done[kind or "nothing"] += 1
                if kind == "request torn":
                    server.sendall(data[: self._cut(data)])
                    return
                if kind == "request repeated":
                    self._repeat(data)
                server.sendall(data)
                if kind == "answer lost":
                    return
                tear = kind == "answer torn"

    def _what(self) -> str:
        number = int(self._dice.random() / self._share)
        return "" if self.calm or number >= len(self._kinds) else self._kinds[number]

    def _cut(self, data: bytes) -> int:
        return self._dice.randrange(len(data))

    def _repeat(self, data: bytes) -> None:
        """The same once more, on a way of its own, whose answer nobody hears."""
        with suppress(OSError), self._connect() as other:
            other.sendall(data)
            other.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for sock in list(self._open):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        if isinstance(self.address, str):
            self._folder.cleanup()
