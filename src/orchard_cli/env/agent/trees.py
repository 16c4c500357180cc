"""Directories as tar streams, both ways. What comes in is hostile: it stays below its directory, and within limits."""

from __future__ import annotations

import errno
import io
import json
import os
from collections.abc import Iterator

from .admission import admit, as_it_is
from .closed import Shut, walk
from .kinds import Any
from .problem import Json, Problem
from .transfer import Exchange

BUFFER = 1 << 18
MAX_ENTRIES = 1_000_000
LEFT_OUT, NAMED = "ORCHARD.left_out", 1000


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


class Steady:
    """A file of the size that was told: one that becomes shorter while it is read ends in zeros."""

    def __init__(self, file: Any):
        self._file, self.cut = file, False

    def read(self, size: int) -> bytes:
        data: bytes = self._file.read(size)
        self.cut = self.cut or len(data) < size
        return data.ljust(size, b"\0")


class Absent:
    """What is there and not in the archive: how many, and the names of the first."""

    def __init__(self, top: str):
        self._top = top
        self.found: dict[str, Any] = {"closed": 0, "deep": 0, "cut": 0, "sockets": 0, "names": []}

    def note(self, why: str, path: str) -> None:
        self.found[why] += 1
        if self.found[why] <= NAMED:
            self.found["names"].append([why, os.path.relpath(path, self._top)])

    def missed(self, error: OSError, path: str) -> None:
        """What has vanished is no loss. Raises what is neither that nor the path's own doing."""
        if error.errno in (errno.EACCES, errno.EPERM):
            self.note("closed", path)
        elif error.errno == errno.ENAMETOOLONG:
            self.note("deep", path)
        elif not isinstance(error, (FileNotFoundError, NotADirectoryError)):
            raise error

    def tell(self, tar: Any) -> None:
        """In a global header. A member has to follow one: that is the top once more."""
        import tarfile

        if self.found["names"]:
            head = tarfile.TarInfo.create_pax_global_header({LEFT_OUT: json.dumps(self.found)})
            tar.fileobj.write(head)
            tar.offset += len(head)
            tar.addfile(tar.gettarinfo(self._top, "."))


def pack(exchange: Exchange) -> None:
    """Everything below a directory but what vanishes meanwhile. The archive says what of the rest it does not hold:
    sockets, the ends of files that were cut off meanwhile, and whatever is closed to the workload itself (with `closed`
    only what is not its own)."""
    import tarfile

    path, shut = exchange.path, Shut("closed" in exchange.request.query)
    if not os.path.isdir(path):
        os.stat(path)
        raise Problem(400, "client.file_error", f"{path} is not a directory")
    exchange.head(200, "application/x-tar")
    with tarfile.open(fileobj=Writer(exchange), mode="w|", bufsize=BUFFER, format=tarfile.PAX_FORMAT) as tar:
        tar.copybufsize = BUFFER  # type: ignore[attr-defined]
        try:
            _walk(tar, path, Absent(path), shut)
        finally:
            shut.restore()
    exchange.write(b"")


def _walk(tar: Any, path: str, absent: Absent, shut: Shut) -> None:
    shut.open(path)
    for folder, below, files in walk(path, absent.missed):
        for name in sorted(below) + sorted(files):
            whole = os.path.join(folder, name)
            try:
                _add(tar, whole, os.path.relpath(whole, path), absent, shut)
            except OSError as error:
                absent.missed(error, whole)
    absent.tell(tar)


def _add(tar: Any, whole: str, name: str, absent: Absent, shut: Shut) -> None:
    member = tar.gettarinfo(whole, name)
    if member is None:
        absent.note("sockets", whole)
    elif member.isreg():
        try:
            with shut.reading(whole), open(whole, "rb") as file:
                steady = Steady(file)
                tar.addfile(member, steady)
                if steady.cut:
                    absent.note("cut", whole)
        except OSError:
            tar.inodes.clear()  # no other name of a file becomes a link to one that is not there
            raise
    else:
        tar.addfile(member)
        if member.isdir():
            shut.open(whole)


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
            tar.copybufsize, tar.extraction_filter = BUFFER, as_it_is  # type: ignore[attr-defined]
            for member in tar:
                size, count = size + member.size, count + 1
                if size > most or count > entries:
                    raise Problem(413, "client.too_large", f"the archive has more than {most} bytes or {entries} names")
                admit(member, top)
                tar.extract(member, top)
    except (Problem, OSError):
        raise
    except Exception as error:  # noqa: BLE001 - what comes in is hostile, and `tarfile` lets many kinds through
        raise Problem(400, "client.bad_archive", f"the archive cannot be unpacked: {error}") from None
    return {"entries": count, "bytes": size}
