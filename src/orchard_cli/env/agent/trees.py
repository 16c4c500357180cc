"""Directories as tar streams, both ways. What comes in is hostile: it stays below its directory, and within limits."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator

from .kinds import Any
from .problem import Json, Problem
from .transfer import Exchange

BUFFER = 1 << 18
MAX_ENTRIES, LONGEST = 1_000_000, 4000


class Writer(io.RawIOBase):
    """Passes what `tarfile` writes on, chunk by chunk."""

    def __init__(self, exchange: Exchange):
        self._exchange = exchange

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        return self._exchange.write(bytes(data)) if data else 0


class Reader(io.RawIOBase):
    """Gives `tarfile` the body of a request."""

    def __init__(self, pieces: Iterator[bytes]):
        self._pieces, self._rest = pieces, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        if not self._rest:
            self._rest = next(self._pieces, b"")
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count


def pack(exchange: Exchange) -> None:
    """Everything below a directory; sockets and what vanishes meanwhile are left out."""
    import tarfile

    path = exchange.path
    if not os.path.isdir(path):
        os.stat(path)
        raise Problem(400, "client.file_error", f"{path} is not a directory")
    exchange.head(200, "application/x-tar")
    with tarfile.open(fileobj=Writer(exchange), mode="w|", bufsize=BUFFER, format=tarfile.PAX_FORMAT) as tar:
        tar.copybufsize = BUFFER  # type: ignore[attr-defined]
        for folder, below, files in os.walk(path):
            inside = os.path.relpath(folder, path)
            for name in sorted(below) + sorted(files):
                whole = os.path.join(folder, name)
                try:
                    member = tar.gettarinfo(whole, os.path.normpath(os.path.join(inside, name)))
                    if member is None:
                        continue
                    if member.isreg():
                        with open(whole, "rb") as source:
                            tar.addfile(member, source)
                    else:
                        tar.addfile(member)
                except (FileNotFoundError, PermissionError):
                    continue
    exchange.write(b"")


def unpack(exchange: Exchange) -> Json:
    """Nothing is written outside, nor through a link; `most` bytes and `entries` are the limits.

    Symbolic links may point anywhere, as those of any `venv` do: they are made, and never followed out of here.
    """
    import tarfile

    number = exchange.request.number
    path, most, entries = exchange.path, number("most", 1 << 40), number("entries", MAX_ENTRIES)
    os.makedirs(path, exist_ok=True)
    size, count, top = 0, 0, os.path.realpath(path)
    try:
        source: Any = io.BufferedReader(Reader(exchange.body()), BUFFER)
        with tarfile.open(fileobj=source, mode="r|*", bufsize=BUFFER) as tar:
            tar.copybufsize, tar.extraction_filter = BUFFER, _as_it_is  # type: ignore[attr-defined]
            for member in tar:
                size, count = size + member.size, count + 1
                if size > most or count > entries:
                    raise Problem(413, "client.too_large", f"the archive has more than {most} bytes or {entries} names")
                _admit(member, top)
                tar.extract(member, top)
    except tarfile.TarError as error:
        raise Problem(400, "client.bad_archive", f"the archive cannot be unpacked: {error}") from None
    return {"entries": count, "bytes": size}


def _as_it_is(member: Any, _: str) -> Any:
    return member


def _admit(member: Any, top: str) -> None:
    """Refuse what would be written outside of `top`; the rest becomes ours, and nobody else may write it.

    A link that stands where a link or a file goes gives way to it; one to a directory is followed where it stays below.
    As `tarfile.data_filter` does, which images with an older Python lack, and which long paths get past in some.
    """
    member.name = member.name.lstrip("/")
    folder, whole = os.path.dirname(member.name), os.path.join(top, member.name)
    link = member.issym() or member.islnk()
    if not (link or member.isreg() or member.isdir()):
        raise _bad(member, "is a device or a pipe")
    replaced = os.path.islink(whole) and not member.isdir()
    if not _within(top, folder if link or replaced else member.name):
        raise _bad(member, "leads outside")
    if member.islnk() and not _within(top, member.linkname):
        raise _bad(member, "links to a place outside")
    if replaced or (link and os.path.lexists(whole) and not os.path.isdir(whole)):
        os.unlink(whole)
    mode = member.mode & 0o755 | (0o700 if member.isdir() else 0o600)
    member.mode = mode if mode & 0o100 else mode & 0o666
    member.uid, member.gid, member.uname, member.gname = os.geteuid(), os.getegid(), "", ""


def _within(top: str, path: str) -> bool:
    """Where links and all lead. A path that is too long for the kernel is not followed to its end."""
    whole = os.path.realpath(os.path.join(top, path))
    return len(os.fsencode(whole)) < LONGEST and os.path.commonpath([top, whole]) == top


def _bad(member: Any, why: str) -> Problem:
    return Problem(400, "client.bad_archive", f"the archive cannot be unpacked: {member.name[:200]} {why}")
