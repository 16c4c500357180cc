"""The processes that one command started, found by a mark that they inherit."""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

VARIABLE = "ORCHARD_COMMAND"
TRIES, AGAIN_S = 100, 0.0005
PF_KTHREAD = 0x200000  # of the kernel itself: never has either


def by_namespace(handle: int, mark: int) -> bool:
    """A command's own cgroup namespace, which nothing inside can change."""
    return os.stat("ns/cgroup", dir_fd=handle).st_ino == mark


def by_variable(handle: int, mark: int, *, name: str = VARIABLE) -> bool:
    """A variable of the environment: enough for programs that mean no harm."""
    for _ in range(TRIES):
        found = text("environ", handle)
        if not found and text("cmdline", handle):  # it has none, or has one by now
            found = text("environ", handle)
        elif not found and not _dead(handle):  # at the point where one program gives way to the next, neither is there
            time.sleep(AGAIN_S)
            continue
        return f"{name}={mark}" in found.split("\0")
    return False


def _dead(handle: int) -> bool:
    words = text("stat", handle).rpartition(") ")[2].split()
    return words[0] in "ZX" or bool(int(words[6]) & PF_KTHREAD)


class Members:
    """The processes that bear a mark, read from one /proc (in a sandbox its own: numbers are those seen inside)."""

    def __init__(self, proc: int, bears: Callable[[int, int], bool]):
        self.proc, self._bears = proc, bears

    def pids(self, mark: int) -> tuple[int, ...]:
        return tuple(pid for pid, _ in self._marked(mark))

    def fresh(self, mark: int, known: set[int]) -> bool:
        """Whether there are any that were not `known`; now they are."""
        before = len(known)
        known.update(self.pids(mark))
        return len(known) > before

    def everyone(self) -> list[int]:
        return sorted(int(name) for name in os.listdir(self.proc) if name.isdigit())

    def send(self, mark: int, number: int) -> int:
        """Signal each process that bears the mark, without a race on reused numbers. Returns how many."""
        hit = 0
        for pid, handle in self._marked(mark):
            with suppress(OSError):
                try:
                    signal.pidfd_send_signal(handle, number)
                except OSError as error:
                    if error.errno != errno.ENOSYS:  # else a kernel that only knows numbers
                        raise
                    os.kill(pid, number)
                hit += 1
        return hit

    def resident(self) -> int:
        """Bytes of memory that the processes hold themselves; what they share among each other counts for each."""
        kib = 0
        for pid in self.everyone():
            with suppress(OSError, ValueError), opened(str(pid), self.proc) as handle:
                status = text("status", handle)
                # gVisor tells one number for all.
                wanted = ("RssAnon:", "RssShmem:") if "RssAnon:" in status else ("VmRSS:",)
                kib += sum(int(line.split()[1]) for line in status.splitlines() if line.startswith(wanted))
        return kib * 1024

    def _marked(self, mark: int) -> Iterator[tuple[int, int]]:
        for pid in self.everyone():
            with suppress(OSError), opened(str(pid), self.proc) as handle:
                if self._bears(handle, mark):  # the dead who wait to be collected bear none
                    yield pid, handle


@contextmanager
def opened(name: str, base: int) -> Iterator[int]:
    fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=base)
    try:
        yield fd
    finally:
        os.close(fd)


def text(name: str, base: int | None) -> str:
    fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=base)
    try:
        return os.read(fd, 1 << 20).decode(errors="replace")
    finally:
        os.close(fd)
