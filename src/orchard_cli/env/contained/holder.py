"""Keeps contained sandboxes alive while their driver is gone: a process of its own, with the standard library alone.

Each sandbox lasts as long as the socket that leads into it, so a duplicate of each is all that is needed. What a next
driver has to know of it lies here as well, in memory: it holds tokens. Without a driver for `keep_s` seconds it ends,
and with it all of them.
"""

import json
import os
import resource
import select
import signal
import socket
import struct
import sys
import time
from contextlib import suppress
from typing import Any

NAME = "holder.sock"  # in the folder of the environment, which is open to our user alone
CRED = struct.Struct("3i")  # pid, uid, gid of whoever connected, as the kernel saw it
SIZE = struct.Struct(">Q")
TAKEN, REFUSED = b"y", b"n"
STUCK_S, MOST = 60.0, 1 << 30
PR_SET_DUMPABLE = 4


def send(sock: socket.socket, record: dict[str, Any], fd: int = -1) -> None:
    """One record, with a descriptor or without."""
    body = json.dumps(record).encode()
    head = SIZE.pack(len(body))
    socket.send_fds(sock, [head], [fd]) if fd >= 0 else sock.sendall(head)
    sock.sendall(body)


def receive(sock: socket.socket) -> tuple[dict[str, Any], int]:
    """And its descriptor, or -1. Raises `OSError` when there is no whole one."""
    head, found, _, _ = socket.recv_fds(sock, SIZE.size, 1, socket.MSG_CMSG_CLOEXEC)
    try:
        size, body = SIZE.unpack(head)[0] if len(head) == SIZE.size else MOST, bytearray()
        while len(body) < size < MOST and (data := sock.recv(min(size - len(body), 1 << 20))):
            body += data
        if len(body) != size:
            raise ConnectionError("the other side has left")
        return json.loads(body), found[0] if found else -1
    except BaseException:
        for fd in found:
            os.close(fd)
        raise


class Holder:
    """Serves one driver at a time."""

    def __init__(self, wire: socket.socket, driver: int):
        self._boxes: dict[str, tuple[dict[str, Any], int]] = {}
        self._hello: dict[str, Any] = {}
        self._keep_s, self._until = 0.0, 0.0
        self._listener: socket.socket | None = None
        self._wire: socket.socket | None = None
        self._driver, self._over = -1, False
        self._meet(wire, driver)

    def _meet(self, wire: socket.socket, driver: int) -> None:
        # A forked child of the driver may keep the socket open after the driver's death: watch the driver too.
        self._driver = os.pidfd_open(driver)
        self._wire = wire
        wire.settimeout(STUCK_S)

    def run(self) -> None:
        while not self._over:
            poll = select.poll()
            for fd in self._watched():
                poll.register(fd, select.POLLIN)
            left = None if self._wire else max(0.0, self._until - time.monotonic())
            ready = {fd for fd, _ in poll.poll(None if left is None else left * 1000)}
            if left == 0.0 and not ready:
                return
            if self._driver in ready:
                self._lost()
            elif self._wire and self._wire.fileno() in ready:
                self._hear(self._wire)
            if self._listener and self._listener.fileno() in ready:
                self._accept(self._listener)

    def _watched(self) -> list[int]:
        own = [self._listener.fileno()] if self._listener else []
        return [*own, self._wire.fileno(), self._driver] if self._wire else own

    def _lost(self) -> None:
        if self._wire:
            self._wire.close()
            os.close(self._driver)
        self._wire, self._driver = None, -1
        self._until = time.monotonic() + self._keep_s
        self._over = self._over or not self._keep_s

    def _hear(self, wire: socket.socket) -> None:
        try:
            record, fd = receive(wire)
            send(wire, self._done(record, fd))
            if record["op"] == "inherit":
                for box, passage in self._boxes.values():
                    send(wire, box, passage)
        except (OSError, ValueError, KeyError):
            self._lost()

    def _done(self, record: dict[str, Any], fd: int) -> dict[str, Any]:
        op, name = record["op"], record.get("name", "")
        if op == "hello":
            self._hello = record["hello"]
            self._listen(record["base"])
        if op in ("hello", "inherit"):
            self._keep_s = record["keep_s"]
        if op == "keep" and fd >= 0:
            note = self._drop(name).get("note", "")
            self._boxes[name] = {"note": note, **record}, fd
        elif op == "note" and name in self._boxes:
            self._boxes[name][0]["note"] = record["note"]
        elif op == "drop":
            self._drop(name)
        self._over = op == "bye"
        if op in ("keep", "note") and (name not in self._boxes or (op == "keep" and fd < 0)):
            return {"refused": "it has no descriptor left" if op == "keep" else "it does not know this sandbox"}
        return {"hello": self._hello, "boxes": len(self._boxes)}

    def _drop(self, name: str) -> dict[str, Any]:
        if name not in self._boxes:
            return {}
        record, fd = self._boxes.pop(name)
        os.close(fd)
        return record

    def _listen(self, base: str) -> None:
        folder = os.open(base, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(f"/proc/self/fd/{folder}/{NAME}")  # an address has at most 107 bytes
        self._listener.listen(4)
        self._listener.setblocking(False)
        os.close(folder)
        _protect()  # only now: such a process may not follow its own /proc/self/fd

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            sock, _ = listener.accept()
            pid, uid, _ = CRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CRED.size))
            if self._wire and _ended(self._driver):
                self._lost()
            if self._wire or self._over or uid != os.getuid():
                with sock:
                    sock.send(REFUSED)
                return
            self._meet(sock, pid)
            sock.sendall(TAKEN)


def _ended(process: int) -> bool:
    poll = select.poll()  # `select` knows no descriptor above 1023
    poll.register(process, select.POLLIN)
    return bool(poll.poll(0))


def _protect() -> None:
    """Our memory holds tokens, and our descriptors lead into sandboxes: not to be had by our equals."""
    import ctypes

    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def main() -> None:
    """Arguments: the descriptor of the socket for messages, the driver's pid."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with suppress(OSError, ValueError):  # one for each sandbox
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    Holder(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])).run()
