"""One connection to an agent, and how answers are cut out of what comes over it."""

import os
import select
import socket
import struct
from collections.abc import Callable, Iterator, Mapping

PIECE, END = 1 << 16, b"\r\n\r\n"
TIMEVAL, IN_LINE_S = struct.Struct("ll"), 60.0
Dial = Callable[[], socket.socket]  # a new connection to an agent that has no address; raises `OSError`


class Wire:
    """One connection."""

    def __init__(self, address: "str | Dial", timeout_s: float):
        self.sock = socket.socket(socket.AF_UNIX) if isinstance(address, str) else address()
        self._buffer = bytearray()
        self.last = False  # the agent closes it after this answer
        self._ear = select.poll()
        self._timeout_s = 0.0
        try:
            if isinstance(address, str):
                self._reach(address, timeout_s)
            self.patience(timeout_s)
            self._ear.register(self.sock, select.POLLIN)
        except BaseException:
            self.sock.close()
            raise

    def _reach(self, address: str, timeout_s: float) -> None:
        """Wait in line to be let in: who does not block is sent away from a full one."""
        send_timeout = socket.SOL_SOCKET, socket.SO_SNDTIMEO
        self.sock.setsockopt(*send_timeout, TIMEVAL.pack(int(min(timeout_s, IN_LINE_S)) + 1, 0))
        try:
            reach(self.sock, address)
        except BlockingIOError:
            raise TimeoutError("nobody was let in") from None
        self.sock.setsockopt(*send_timeout, TIMEVAL.pack(0, 0))

    def head(self, *, alone: bool = False) -> tuple[int, dict[str, str]]:
        """Status and headers of the answer that comes next. `alone`: what follows them is left in the socket."""
        while (end := self._buffer.find(END)) < 0:
            self._more(self._to_the_end() if alone else PIECE)
        lines = self._buffer[:end].decode("latin-1").split("\r\n")
        del self._buffer[: end + 4]
        pairs = (line.partition(":") for line in lines[1:])
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        self.last = headers.get("connection") == "close"
        return int(lines[0].split(" ")[1]), headers

    def exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._more(max(PIECE, size - len(self._buffer)))
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    def pieces(self, headers: Mapping[str, str]) -> Iterator[bytes]:
        """The body, in pieces."""
        if "content-length" in headers:
            left = int(headers["content-length"])
            while left:
                data = self.exactly(min(left, len(self._buffer) or 1))
                left -= len(data)
                yield data
            return
        while size := int(self._line(), 16):
            yield self.exactly(size)
            self._line()
        self._line()

    def kept(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """The same; read to the end, the connection can be used again."""
        yield from pieces
        self.last = False

    def _line(self) -> bytes:
        while (end := self._buffer.find(b"\r\n")) < 0:
            self._more()
        return self.exactly(end + 2).strip()

    def _to_the_end(self) -> int:
        """How much of a head is here."""
        seen = self.sock.recv(PIECE, socket.MSG_PEEK)
        end = (self._buffer + seen).find(END)
        return max(1, len(seen) if end < 0 else end + len(END) - len(self._buffer))

    def _more(self, most: int = PIECE) -> None:
        data = self.sock.recv(min(most, 1 << 20))
        if not data:
            raise ConnectionResetError("the agent has closed the connection")
        self._buffer += data

    def patience(self, timeout_s: float) -> None:
        """How long each step may take from now on."""
        if timeout_s != self._timeout_s:
            self._timeout_s = timeout_s
            self.sock.settimeout(timeout_s)

    def stale(self) -> bool:
        """Whether the agent has closed it (or said what nobody asked for) while it was idle; then it is closed here."""
        if not self._ear.poll(0):
            return False
        self.close()
        return True

    def close(self) -> None:
        self.sock.close()


def reach(sock: socket.socket, address: str) -> None:
    """A Unix address has at most 107 bytes; a longer path is gone through its folder."""
    if len(os.fsencode(address)) < 108:
        sock.connect(address)
        return
    folder, name = os.path.split(address)
    handle = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    try:
        sock.connect(f"/proc/self/fd/{handle}/{name}")
    finally:
        os.close(handle)
