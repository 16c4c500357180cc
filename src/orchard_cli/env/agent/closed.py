"""What its own mode closes to us: without root's powers it can be neither read nor emptied."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


def open_one(folder: str) -> None:
    mode = stat.S_IMODE(os.lstat(folder).st_mode)
    if mode & 0o700 != 0o700:
        with suppress(PermissionError):  # not ours
            os.chmod(folder, mode | 0o700)


def open_all(folder: str) -> None:
    """It and all below, before they are removed."""
    open_one(folder)
    for above, below, _ in walk(folder):
        for name in below:
            open_one(os.path.join(above, name))


def walk(top: str, failed: Callable[[OSError, str], None] | None = None) -> Iterator[tuple[str, list[str], list[str]]]:
    """As `os.walk`, which in older Pythons gives up at a depth that a workload may exceed. A link is no directory."""
    waiting = [top]
    while waiting:
        folder = waiting.pop()
        below: list[str] = []
        files: list[str] = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    (below if entry.is_dir(follow_symlinks=False) else files).append(entry.name)
        except OSError as error:
            if failed is not None:
                failed(error, folder)
            continue
        yield folder, below, files
        waiting += [os.path.join(folder, name) for name in reversed(below)]


def clear(folder: str) -> None:
    """Remove it and all below as far as can be. Programs bear any depth, where `shutil` ends in a `RecursionError`."""
    import shutil

    with suppress(OSError):
        open_all(folder)
    with suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)
    if os.path.lexists(folder):
        null = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
        for words in (["chmod", "-R", "u+rwx"], ["rm", "-rf"]):
            with suppress(OSError):
                pid = os.posix_spawnp(words[0], [*words, "--", folder], os.environ, file_actions=null)
                os.waitpid(pid, 0)


class Shut:
    """Opens what is closed while it is being read, if that is `wanted`; modes are as before after `restore`."""

    def __init__(self, wanted: bool):
        self._wanted = wanted
        self._modes: list[tuple[str, int]] = []

    def open(self, path: str, needed: int = 0o500) -> None:
        mode = stat.S_IMODE(os.lstat(path).st_mode)
        if self._wanted and mode & needed != needed:
            with suppress(PermissionError):  # not ours
                os.chmod(path, mode | needed)
                self._modes.append((path, mode))

    @contextmanager
    def reading(self, path: str) -> Iterator[None]:
        """A file."""
        before = len(self._modes)
        self.open(path, 0o400)
        try:
            yield
        finally:
            self.restore(before)

    def restore(self, first: int = 0) -> None:
        while len(self._modes) > first:
            path, mode = self._modes.pop()
            with suppress(OSError):  # gone meanwhile
                os.chmod(path, mode)
