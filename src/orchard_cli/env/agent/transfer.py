"""File operations. Each runs in a child of the agent that has taken a connection over: plain, blocking code.

Paths mean whatever they mean inside; the child has entered the sandbox and has no more power than a command.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress

from .kinds import Any
from .launch import enter
from .problem import Json, Problem
from .request import Request

CHUNK = 1 << 18
KINDS = {stat.S_IFDIR: "directory", stat.S_IFREG: "file", stat.S_IFLNK: "link"}
SILENCE_S = 120.0  # a client that neither sends nor takes for so long is gone


class Exchange:
    """One request and its answer. `ahead` is what was read of the body already."""

    def __init__(self, sock: socket.socket, request: Request, ahead: bytes):
        sock.settimeout(SILENCE_S)
        self._sock, self._ahead, self.request = sock, ahead, request
        self._left, self._more, self._inside = request.length, request.chunked, False
        self.answered = False

    def named(self, name: str) -> str:
        if name not in self.request.query:
            raise Problem(400, "client.bad_argument", f"{name} is missing")
        return self.request.query[name]

    path = property(lambda self: self.named("path"))

    def body(self) -> Iterator[bytes]:
        """Pieces of the body, each at most `CHUNK` long. May be asked for again: goes on where it was left."""
        while self._left or self._more:
            if not self._left:
                if self._inside:
                    self._line()
                self._left, self._inside = self._size(), True
                self._more = self._left > 0
            if self._left:
                data = self._take(min(self._left, CHUNK))
                self._left -= len(data)
                yield data
            elif not self._more:
                self._line()

    def _size(self) -> int:
        try:
            return int(self._line(), 16)
        except ValueError:
            raise ConnectionError("a chunk without its size") from None

    def _take(self, most: int) -> bytes:
        if self._ahead:
            data, self._ahead = self._ahead[:most], self._ahead[most:]
        else:
            data = self._sock.recv(most)
        if not data:
            raise ConnectionError("the client left in the middle of its request")
        return data

    def _line(self) -> bytes:
        line = b""
        while not line.endswith(b"\r\n"):
            line += self._take(1)
        return line.strip()

    def drain(self) -> None:
        for _ in self.body():
            pass

    def head(self, status: int, kind: str, length: int = -1, **more: object) -> None:
        size = f"Content-Length: {length}" if length >= 0 else "Transfer-Encoding: chunked"
        rest = "".join(f"X-{name.capitalize()}: {value}\r\n" for name, value in more.items())
        self.answered = True
        self._sock.sendall(f"HTTP/1.1 {status} OK\r\nContent-Type: {kind}\r\n{size}\r\n{rest}\r\n".encode())

    def reply(self, record: Any, status: int = 200) -> None:
        text = json.dumps(record, separators=(",", ":")).encode()
        self.head(status, "application/json", len(text))
        self._sock.sendall(text)

    def switch(self, protocol: str) -> socket.socket:
        """From now on the connection speaks something else."""
        self.answered = True
        self._sock.sendall(f"HTTP/1.1 101 Switching\r\nUpgrade: {protocol}\r\nConnection: Upgrade\r\n\r\n".encode())
        return self._sock

    def file(self, fd: int, offset: int, count: int) -> bool:
        """Send part of a file; False if there turned out to be less."""
        with os.fdopen(fd, "rb", closefd=False) as source:
            return count == 0 or self._sock.sendfile(source, offset, count) == count

    def write(self, data: bytes) -> int:
        """One chunk of an answer of unknown length; nothing ends it."""
        self._sock.sendall(b"%x\r\n%b\r\n" % (len(data), data))
        return len(data)


Operation = Callable[[Exchange], Any]


def serve(operation: Operation, request: Request, sock: socket.socket, ahead: bytes, workdir: str) -> bool:
    """Run one operation and answer. False if the connection cannot be used any more."""
    exchange = Exchange(sock, request, ahead)
    try:
        try:
            enter(workdir)
            record = operation(exchange)
        except ConnectionError:
            return False
        except (OSError, RecursionError) as error:
            raise refused(error, request.query.get("path", "")) from None
        if not exchange.answered:
            exchange.drain()
            exchange.reply(record)
    except Problem as problem:
        if exchange.answered:
            return False
        exchange.drain()
        exchange.reply(problem.record, problem.status)
    return True


def refused(error: OSError | RecursionError, path: str) -> Problem:
    if isinstance(error, RecursionError) or (error.errno == errno.ENAMETOOLONG and not path):
        return Problem(409, "workload.too_deep", "directories lie too deep: their path is too long", "model")
    if isinstance(error, FileNotFoundError):
        return Problem(404, "client.no_such_file", f"no such file in the sandbox: {path}")
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Problem(409, "workload.disk_quota", f"the sandbox's disk is full: {path}", "model")
    return Problem(400, "client.file_error", f"{path}: {error.strerror or error}")


def read(exchange: Exchange) -> None:
    """Only regular files: opening a FIFO must not hang, reading a device must not go on for ever."""
    path, number = exchange.path, exchange.request.number
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    found = os.fstat(fd)
    if stat.S_ISDIR(found.st_mode):
        raise Problem(400, "client.is_a_directory", f"{path} is a directory")
    if not stat.S_ISREG(found.st_mode):
        raise Problem(400, "client.not_a_file", f"{path} is not a regular file")
    most, offset = int(number("most", 1 << 62)), int(number("offset", 0))
    size = max(0, found.st_size - offset)
    if size > most and "limit" not in exchange.request.query:
        raise Problem(413, "client.too_large", f"{path} has {size} bytes, more than {most}")
    count = min(size, int(number("limit", size)))
    if found.st_size:
        exchange.head(200, "application/octet-stream", count, mode=oct(found.st_mode & 0o7777)[2:], size=found.st_size)
        if not exchange.file(fd, offset, count):
            raise ConnectionError("the file became shorter meanwhile")
        return
    exchange.head(200, "application/octet-stream", mode=oct(found.st_mode & 0o7777)[2:])
    while most > 0 and (data := os.read(fd, min(CHUNK, most))):  # /proc tells no sizes
        most -= exchange.write(data)
    exchange.write(b"")


def write(exchange: Exchange) -> Json:
    """Complete or not at all: a new file takes the name, whatever had it (never through a link)."""
    path, mode = exchange.path, exchange.request.query.get("mode", "644")
    if not 0 < len(mode) < 5 or set(mode) - set("01234567"):
        raise Problem(400, "client.bad_argument", f"{mode} is no file mode")
    folder, name = os.path.split(path)
    if name in ("", ".", "..") or (os.path.isdir(path) and not os.path.islink(path)):
        raise Problem(400, "client.is_a_directory", f"{path} is a directory")
    if folder:
        os.makedirs(folder, exist_ok=True)
    scratch = os.path.join(folder, f".{os.urandom(8).hex()}.orchard")
    fd = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    size = 0
    try:
        for data in exchange.body():
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            size += len(data)
        os.fchmod(fd, int(mode, 8))
        os.rename(scratch, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(scratch)
        raise
    return {"bytes": size}


def names(exchange: Exchange) -> list[Any]:
    """[name, kind, size, mode, modified] of each entry, by name; `after` and `limit` page through many.

    With `brief`, names alone, those of directories with a slash.
    """
    query, path = exchange.request.query, os.fsencode(exchange.path)
    if "brief" in query:
        with os.scandir(path) as entries:
            told_apart = [entry.name + (b"/" if entry.is_dir(follow_symlinks=False) else b"") for entry in entries]
        return [os.fsdecode(name) for name in sorted(told_apart)]
    with os.scandir(path) as entries:
        found = sorted((os.fsdecode(entry.name) for entry in entries), key=os.fsencode)
    if "after" in query:
        found = [name for name in found if os.fsencode(name) > os.fsencode(query["after"])]
    found = found[: int(exchange.request.number("limit", len(found)))]
    rows: list[list[object]] = []
    for name in found:
        with suppress(FileNotFoundError):
            rows.append([name, *told(os.lstat(os.path.join(path, os.fsencode(name))))])
    return rows


def told(found: os.stat_result) -> list[object]:
    kind = KINDS.get(stat.S_IFMT(found.st_mode), "other")
    return [kind, found.st_size, stat.S_IMODE(found.st_mode), found.st_mtime]


def facts(exchange: Exchange) -> Json:
    path = exchange.path
    kind, size, mode, modified = told(os.lstat(path))
    target = os.readlink(path) if kind == "link" else None
    return {"kind": kind, "size": size, "mode": mode, "modified": modified, "target": target}


def remove(exchange: Exchange) -> Json:
    import shutil

    path = exchange.path
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path) if exchange.request.query.get("recursive") else os.rmdir(path)
    else:
        os.unlink(path)
    return {}


def make(exchange: Exchange) -> Json:
    os.makedirs(exchange.path, exist_ok=True)
    return {}


def move(exchange: Exchange) -> Json:
    os.rename(exchange.path, exchange.named("to"))
    return {}
