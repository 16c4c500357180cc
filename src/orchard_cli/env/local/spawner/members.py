"""The processes that one command started, found by the mark that `enter` gave it (a cgroup namespace)."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Members:
    """Reads one /proc: the sandbox's own, so numbers are those seen inside."""

    def __init__(self, proc: int):
        self._proc = proc

    def pids(self, mark: int) -> tuple[int, ...]:
        return tuple(pid for pid in self._all() if self._marked(str(pid), self._proc, mark))

    def everyone(self) -> tuple[int, ...]:
        return tuple(self._all())

    def send(self, mark: int, number: int) -> int:
        """Signal each process that bears the mark, without a race on reused numbers. Returns how many."""
        hit = 0
        for pid in self._all():
            with suppress(OSError), _opened(str(pid), self._proc) as handle:
                if self._marked(".", handle, mark):
                    signal.pidfd_send_signal(handle, number)
                    hit += 1
        return hit

    def resident(self, marks: set[int]) -> int:
        """Bytes of memory that the marked processes hold themselves."""
        pages = 0
        for pid in self._all():
            with suppress(OSError, ValueError, IndexError), _opened(str(pid), self._proc) as handle:
                if os.stat("ns/cgroup", dir_fd=handle).st_ino in marks:
                    size, resident, shared = _text("statm", handle).split()[:3]
                    pages += int(resident) - int(shared)
        return pages * os.sysconf("SC_PAGE_SIZE")

    def _all(self) -> Iterator[int]:
        return iter(sorted(int(name) for name in os.listdir(self._proc) if name.isdigit()))

    @staticmethod
    def _marked(pid: str, base: int, mark: int) -> bool:
        try:
            return os.stat(f"{pid}/ns/cgroup", dir_fd=base).st_ino == mark
        except OSError:  # gone, or dead and not yet collected
            return False


@contextmanager
def _opened(name: str, base: int) -> Iterator[int]:
    fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=base)
    try:
        yield fd
    finally:
        os.close(fd)


def _text(name: str, base: int) -> str:
    fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=base)
    try:
        return os.read(fd, 4096).decode()
    finally:
        os.close(fd)
