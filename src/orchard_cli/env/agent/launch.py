"""From an order to a process: its ends, its environment, its program."""

from __future__ import annotations

import errno
import fcntl
import os
import struct

from .feed import Feed
from .ground import Ground
from .kinds import Any
from .loop import Loop
from .order import Order
from .problem import Problem

SHELLS = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/bin/sh")
ARGUMENT_LIMIT = 100_000  # the kernel allows 131,071 bytes for one argument
TIOCSWINSZ, TIOCGPTN = 0x5414, 0x80045430
NO_SHELL = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ENOEXEC, errno.ELOOP)
SCRIPT_FD = 3
SPARE_FDS = 32


class Launch:
    """Started by its construction. `pid` is -1 when no process came of it; then `failure` says why.

    `reads` are the descriptors that its output comes from: one when both streams are merged, else two.
    Raises `Problem` when the order cannot be met; then nothing has run.
    """

    def __init__(self, order: Order, loop: Loop, ground: Ground, base: dict[str, str], workdir: str):
        self.pid, self.mark, self.master = -1, 0, -1
        self.feed: Feed | None = None
        self.reads: list[int] = []
        self.failure: OSError | None = None
        self._order, self._loop, self._given = order, loop, []  # type: Order, Loop, list[int]
        self._actions: list[Any] = []
        self._env = {name: value for name, value in {**base, **order.env}.items() if value is not None}
        enter(workdir, order.cwd)
        try:
            self._terminal() if order.tty is not None else self._pipes()
            self.mark = ground.mark(self._env)
            self._spawn(ground)
        except BaseException:
            self._give_up()
            raise
        finally:
            os.chdir("/")
            for fd in self._given:
                os.close(fd)

    def _give_up(self) -> None:
        if self.feed is not None:
            self.feed.close()
        for fd in self.reads:
            os.close(fd)

    def _pipes(self) -> None:
        self._becomes(self._input(), 0)
        for number in (1,) if self._order.merge else (1, 2):
            read, write = os.pipe2(os.O_CLOEXEC)
            self._given.append(write)
            self.reads.append(read)
            self._becomes(write, number)
        if self._order.merge:
            self._becomes(self._given[-1], 2)

    def _becomes(self, fd: int, number: int) -> None:
        self._actions.append((os.POSIX_SPAWN_DUP2, fd, number))

    def _input(self) -> int:
        """A whole input at once needs no pipe to feed: no deadlock with a program that does not read."""
        if self._order.stdin == "open":
            read, write = os.pipe2(os.O_CLOEXEC)
            self.feed = Feed(self._loop, write, tty=False)
        elif self._order.data:
            read = memory("stdin", self._order.data)
            self._order.data = b""
        else:
            read = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        self._given.append(read)
        return read

    def _terminal(self) -> None:
        """A terminal becomes the command's own by being opened after it has become leader of its session."""
        size = self._order.tty or {}
        self.master, slave = os.openpty()
        self._given.append(slave)
        self.reads.append(self.master)
        resize(self.master, size.get("rows", 24), size.get("cols", 80))
        number = struct.unpack("I", fcntl.ioctl(self.master, TIOCGPTN, bytes(4)))[0]
        self.feed = Feed(self._loop, self.master, tty=True)
        self._env["TERM"] = self._order.env.get("TERM") or "xterm-256color"
        self._actions.append((os.POSIX_SPAWN_OPEN, 0, f"/dev/pts/{number}", os.O_RDWR, 0))
        self._becomes(0, 1)
        self._becomes(0, 2)

    def _programs(self) -> list[tuple[str, list[Any]]]:
        """What to try, in turn: (path, argv)."""
        argv, script = self._order.argv, os.fsencode(self._order.script or "")
        if argv is not None:
            if "/" in argv[0]:
                return [(argv[0], argv)]
            paths = [os.path.join(folder, argv[0]) for folder in self._env.get("PATH", os.defpath).split(":")]
            return [(path, argv) for path in paths if os.path.exists(path)]
        words: list[Any] = [b"-c", script]
        if len(script) >= ARGUMENT_LIMIT:
            # The first words close the descriptor for what the script starts; the shell reads through its own.
            fd = memory("script", b"exec %d<&-; " % SCRIPT_FD + script)
            self._given.append(fd)
            self._becomes(fd, SCRIPT_FD)
            words = [b"/proc/self/fd/%d" % SCRIPT_FD]
        return [(shell, [os.path.basename(shell).encode(), *words]) for shell in SHELLS]

    def _spawn(self, ground: Ground) -> None:
        self.failure = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        for path, argv in self._programs():
            try:
                self.pid = ground.spawn(path, argv, self._env, self._actions)
                self.failure = None
                return
            except OSError as error:
                if error.errno == errno.E2BIG:
                    raise Problem(400, "client.bad_argument", "arguments and environment are too long") from None
                self.failure = error
                if error.errno == errno.EAGAIN:
                    return
        if ground.gone():
            os._exit(0)  # the place is ending, and we with it: whoever asked learns from outside why
        if self._order.script is not None and self.failure.errno in NO_SHELL:
            text = "there is no shell left in the sandbox"
            raise Problem(409, "sandbox.broken_by_workload", text, "model")


def crowded() -> bool:
    """So few descriptors are left that those who run already could not be ended: that takes some, too."""
    try:
        lowest = os.dup(0)
    except OSError:
        return True
    os.close(lowest)
    return 0 < os.sysconf("SC_OPEN_MAX") - SPARE_FDS <= lowest


def enter(workdir: str, named: str = "") -> None:
    """Change to a directory that a command names; the process comes back to / once the command has started."""
    folder = os.path.join(workdir, named)
    try:
        os.chdir(folder)
    except OSError as error:
        if named and os.path.isdir(workdir):
            raise Problem(400, "client.no_such_directory", f"no directory {folder}: {error.strerror}") from None
        text = f"the work directory {workdir} is gone, or closed: {error.strerror}"
        raise Problem(409, "sandbox.broken_by_workload", text, "model") from None


def resize(master: int, rows: object, cols: object) -> None:
    good = [size for size in (rows, cols) if isinstance(size, int) and 0 < size < 65536]
    if len(good) != 2:
        raise Problem(400, "client.bad_argument", "rows and columns are between 1 and 65535")
    fcntl.ioctl(master, TIOCSWINSZ, struct.pack("HHHH", *good, 0, 0))


def memory(name: str, data: bytes) -> int:
    """A file without a name that holds `data`, at its beginning."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC)
    write_all(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
