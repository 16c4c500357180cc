"""File operations. They run in a forked child that has already entered the sandbox, so that whatever a path is
made to mean in there, it means it in there. Data comes in by stdin and leaves by stdout."""

import os
import stat
from contextlib import suppress

from .enter import Refused

CHUNK = 1 << 20


def read(path: str, cap: int) -> None:
    """Only regular files: opening a FIFO must not hang, reading a device must not go on for ever."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        raise _refused(error, path) from error
    found = os.fstat(fd)
    if stat.S_ISDIR(found.st_mode):
        raise Refused("client.is_a_directory", f"{path} is a directory")
    if not stat.S_ISREG(found.st_mode):
        raise Refused("client.not_a_file", f"{path} is not a regular file")
    if found.st_size > cap:
        raise Refused("client.too_large", f"{path} has {found.st_size} bytes, more than {cap}")
    left = cap
    while left and (data := os.read(fd, min(CHUNK, left))):
        left -= len(data)
        _put(1, data)


def write(path: str, mode: int) -> None:
    """Complete or not at all: a new file takes the name, whatever had it (never through a link)."""
    folder, name = os.path.split(path)
    if not name or name in (".", ".."):
        raise Refused("client.is_a_directory", f"{path} is a directory")
    scratch = os.path.join(folder, f".{os.urandom(8).hex()}.orchard")
    try:
        if folder:
            os.makedirs(folder, exist_ok=True)
        if os.path.isdir(path) and not os.path.islink(path):
            raise Refused("client.is_a_directory", f"{path} is a directory")
        fd = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise _refused(error, path) from error
    try:
        while data := os.read(0, CHUNK):
            _put(fd, data)
        os.fchmod(fd, mode)
        os.rename(scratch, path)
    except OSError as error:
        with suppress(OSError):
            os.unlink(scratch)
        raise _refused(error, path) from error


def list_names(path: str) -> None:
    """Names, each ended by NUL; directories end in a slash."""
    try:
        with os.scandir(os.fsencode(path)) as entries:
            names = sorted(e.name + (b"/" if e.is_dir(follow_symlinks=False) else b"") for e in entries)
    except OSError as error:
        raise _refused(error, path) from error
    _put(1, b"".join(name + b"\0" for name in names))


def _put(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _refused(error: OSError, path: str) -> Refused:
    if isinstance(error, FileNotFoundError):
        return Refused("client.no_such_file", f"no such file in the sandbox: {path}")
    if error.errno == 28:
        return Refused("workload.disk_quota", f"the sandbox's disk is full: {path}", "model")
    return Refused("client.file_error", f"{path}: {error.strerror}")
