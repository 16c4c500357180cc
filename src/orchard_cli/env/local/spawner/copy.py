"""Copy one directory tree into another, both open, following nothing: the source may be hostile."""

import os
import stat
from contextlib import suppress

CHUNK = 1 << 22
OWN_MARKS = ("overlay.origin", "overlay.uuid", "overlay.impure", "overlay.nlink")  # true of the original alone
Links = dict[tuple[int, int], tuple[int, str]]


def copy_tree(source: int, target: int, *, seen: Links | None = None) -> None:
    """Everything below `source` (files, links, FIFOs, an overlay's marks) into the existing `target`.

    Modes, times and hard links are kept; owners are ours. What vanishes meanwhile is left out.
    """
    seen = {} if seen is None else seen
    _attributes(source, target)
    for name in os.listdir(source):
        with suppress(FileNotFoundError):
            _entry(name, source, target, seen)
    _dress(source, target)


def dress(source: int, target: int) -> None:
    """Give one open directory the attributes, mode and times of another."""
    _attributes(source, target)
    _dress(source, target)


def _dress(source: int, target: int) -> None:
    found = os.fstat(source)
    os.fchmod(target, stat.S_IMODE(found.st_mode))
    os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))


def _entry(name: str, source: int, target: int, seen: Links) -> None:
    found = os.lstat(name, dir_fd=source)
    kind = stat.S_IFMT(found.st_mode)
    if kind == stat.S_IFDIR:
        os.mkdir(name, 0o700, dir_fd=target)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        below, copied = os.open(name, flags, dir_fd=source), os.open(name, flags, dir_fd=target)
        try:
            copy_tree(below, copied, seen=seen)
        finally:
            os.close(below)
            os.close(copied)
    elif kind == stat.S_IFLNK:
        os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=target)
    elif kind == stat.S_IFREG:
        _file(name, source, target, found, seen)
    elif kind in (stat.S_IFIFO, stat.S_IFSOCK) or (kind == stat.S_IFCHR and found.st_rdev == 0):
        # 0:0 is how an overlay says "deleted"
        os.mknod(name, found.st_mode, found.st_rdev if kind == stat.S_IFCHR else 0, dir_fd=target)
    if kind in (stat.S_IFLNK, stat.S_IFIFO):
        os.utime(name, ns=(found.st_atime_ns, found.st_mtime_ns), dir_fd=target, follow_symlinks=False)


def _file(name: str, source: int, target: int, found: os.stat_result, seen: Links) -> None:
    key = (found.st_dev, found.st_ino)
    if found.st_nlink > 1 and key in seen:
        folder, first = seen[key]
        os.link(first, name, src_dir_fd=folder, dst_dir_fd=target, follow_symlinks=False)
        return
    reading = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=source)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    writing = os.open(name, flags, 0o600, dir_fd=target)
    try:
        _data(reading, writing, os.fstat(reading).st_size)
        _attributes(reading, writing)
        os.fchmod(writing, stat.S_IMODE(found.st_mode))
        os.utime(writing, ns=(found.st_atime_ns, found.st_mtime_ns))
    finally:
        os.close(reading)
        os.close(writing)
    if found.st_nlink > 1:
        seen[key] = (os.dup(target), name)


def _data(reading: int, writing: int, size: int) -> None:
    """Only the parts that hold data; holes stay holes."""
    os.ftruncate(writing, size)
    at = 0
    while at < size:
        try:
            start = os.lseek(reading, at, os.SEEK_DATA)
        except OSError:  # nothing but a hole is left
            return
        at = min(os.lseek(reading, start, os.SEEK_HOLE), size)
        os.lseek(reading, start, os.SEEK_SET)
        os.lseek(writing, start, os.SEEK_SET)
        while start < at and (done := os.sendfile(writing, reading, None, min(CHUNK, at - start))):
            start += done


def _attributes(source: int, target: int) -> None:
    for name in os.listxattr(source):
        if not name.endswith(OWN_MARKS):
            with suppress(OSError):
                os.setxattr(target, name, os.getxattr(source, name))
