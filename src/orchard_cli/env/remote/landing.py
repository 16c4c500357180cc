"""Where a file out of a sandbox comes to lie on this machine."""

import os
import secrets
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO


def land(pieces: Iterable[bytes], target: Path) -> int:
    """Write a file; bytes. It appears only when it is whole, with the mode of the one that it replaces.

    Links are followed. What is no file of ours with one name (a pipe, a device, `/dev/stdout`) is written to as it is.
    """
    rest = iter(pieces)
    first = next(rest, b"")  # what is refused is refused before anything is touched
    place, mode = _place(target)
    if mode is not None and not _replaceable(target, place):
        with target.open("wb") as file:
            return _fill(file, first, rest)
    part = place.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with part.open("xb") as file:
            size = _fill(file, first, rest)
            if mode is not None:
                os.fchmod(file.fileno(), mode & 0o777)
        part.replace(place)
    finally:
        part.unlink(missing_ok=True)
    return size


def _place(target: Path) -> tuple[Path, int | None]:
    """Where links lead, and the mode of what is there."""
    place = Path(os.path.realpath(target))
    with suppress(FileNotFoundError):
        return place, target.stat().st_mode
    return place, None


def _replaceable(target: Path, place: Path) -> bool:
    """Whether a new file under the same name is the same to everybody else, and can be made."""
    found = target.stat()
    named = target.is_symlink() or str(target.absolute()).startswith(("/dev/", "/proc/"))
    own = found.st_uid == os.geteuid() and not named
    return own and stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and os.access(place.parent, os.W_OK)


def _fill(file: IO[bytes], first: bytes, rest: Iterable[bytes]) -> int:
    return put(file, first) + sum(put(file, piece) for piece in rest)


def put(file: IO[bytes], data: bytes) -> int:
    """Write all of it: a process that is stopped meanwhile (^Z) has written a part, and is told so by `write` alone."""
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]
    return len(data)
