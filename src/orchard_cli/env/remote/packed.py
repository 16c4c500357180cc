"""Directories to a sandbox and from one, as tar streams: neither side ever holds a whole one."""

import io
import json
import os
import tarfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from ...errors import ConfigError, RunError
from ..agent.trees import LEFT_OUT
from ..sandbox import Sandbox
from ..service.trees import extract

PIECE, SHOWN, SHORT = 1 << 18, 5, 100
LOST = {  # what became of it, and what can be done
    "closed": ("cannot be read in the sandbox", "`chmod -R u+rX` inside opens them"),
    "deep": ("lie deeper than a path is long", "copy a directory further down"),
    "cut": ("became shorter while they were read, and end in zeros", "stop what writes them, or copy again"),
}


def send_folder(box: Sandbox, folder: Path, path: str, left_out: list[str] | None = None) -> int:
    """A directory of this machine into the directory `path`; bytes of its tar. Names of devices and pipes, which stay
    here, are added to `left_out`."""
    sent = 0

    def counted() -> Iterator[bytes]:
        nonlocal sent
        for piece in packed(folder, left_out):
            sent += len(piece)
            yield piece

    box.unpack(path, counted())
    return sent


def packed(folder: Path, left_out: list[str] | None = None) -> Iterator[bytes]:
    """The tar of a directory, made by a thread just ahead of its reader. Raises `OSError` for what cannot be read."""
    folder = folder.resolve()  # a link to one is meant as the one it leads to
    reading, writing = os.pipe()
    errors: list[OSError] = []
    out, others = os.fdopen(writing, "wb"), [] if left_out is None else left_out
    maker = threading.Thread(target=_make, args=(folder, out, errors, others), daemon=True)
    maker.start()
    with os.fdopen(reading, "rb") as tar:
        while piece := tar.read(PIECE):
            yield piece
    maker.join()
    if errors:
        raise errors[0]


def _make(folder: Path, out: IO[bytes], errors: list[OSError], left_out: list[str]) -> None:
    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        """Owned by root; devices and pipes stay here, and so do sockets, which no tar knows."""
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        if member.isreg() or member.isdir() or member.issym() or member.islnk():
            return member
        left_out.append(member.name)
        return None

    try:
        with suppress(BrokenPipeError), out, tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as tar:
            tar.add(folder, arcname=".", filter=plain)
    except OSError as error:
        errors.append(error)


def fetch_folder(box: Sandbox, path: str, folder: Path, left_out: list[str] | None = None) -> int:
    """A directory of the sandbox as the new directory `folder`; bytes of its files. What comes is hostile.

    Names of devices, pipes and sockets, which stay there, are added to `left_out`; without it they are an error. What
    could not be read there is one, once all else is here.
    """
    if folder.exists() or folder.is_symlink():
        raise ConfigError(f"{folder} is there already", hint="name a directory that is not there yet")
    folder.mkdir()
    stream = io.BufferedReader(cast(Any, _Reader(box.pack(path))), PIECE)
    try:
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            size, absent = extract(archive, folder, left_out), absent_of(archive)
    except tarfile.TarError as error:
        raise RunError(
            f"{path} in the sandbox cannot be unpacked here: {error}", hint=f"{folder} is not whole"
        ) from error
    if left_out is not None:
        left_out += absent.sockets
    elif absent.sockets:
        raise RunError(f"{path} holds sockets: {', '.join(absent.sockets[:SHOWN])}", hint=f"the rest is in {folder}")
    for why, (count, names) in absent.lost.items():
        said, way = LOST[why]
        raise RunError(
            f"{count:,} of {path} {said}: {', '.join(names[:SHOWN])}", hint=f"the rest is in {folder}; {way}"
        )
    return size


class Absent(NamedTuple):
    lost: dict[str, tuple[int, list[str]]]  # why → how many, and the first of them
    sockets: list[str]


def absent_of(archive: tarfile.TarFile) -> Absent:
    """What an archive that has been read says that it does not hold. Raises `tarfile.TarError` for nonsense."""
    try:
        told = json.loads(archive.pax_headers.get(LEFT_OUT, '{"names": []}'))
        names: dict[str, list[str]] = {why: [] for why in (*LOST, "sockets")}
        for why, name in told["names"]:
            names[why].append(str(name))
        counts = {why: int(told.get(why, 0)) for why in LOST}
        return Absent({why: (count, names[why]) for why, count in counts.items() if count}, names["sockets"])
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
        raise tarfile.TarError("a header that makes no sense") from error


class _Reader(io.RawIOBase):
    def __init__(self, pieces: Iterator[bytes]):
        self._pieces, self._rest = pieces, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        self._rest = self._rest or next(self._pieces, b"")
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count
