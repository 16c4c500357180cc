"""All that has changed in a container since it was made, out of one and into another: what a fork is made of.

A tar whose first member names, for each directory that has changed, all that is in it: what else was there is gone.
Takes everything as it is: what goes in and out is one sandbox's own.
"""

from __future__ import annotations

import errno
import io
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from .closed import open_all, open_one
from .kinds import Any
from .problem import Json
from .transfer import Exchange
from .trees import BUFFER, Reader, Writer

FIRST = "changed"
MARGIN_S = 0.5
VANISHED = (FileNotFoundError, NotADirectoryError)


def collect(exchange: Exchange) -> None:
    """What has changed after `since`, in seconds since 1970, but below the directories of the JSON list `skip`."""
    import tarfile

    since = exchange.request.number("since", 0.0) - MARGIN_S
    folders: dict[str, list[str]] = {}
    files: list[str] = []
    with _opened() as modes:
        for folder, changed, names, others in _walk(json.loads(exchange.named("skip")), modes):
            if changed > since:
                folders[folder] = names
            files += [path for path in others if _changed(path) > since]
        exchange.head(200, "application/x-tar")
        with tarfile.open(fileobj=Writer(exchange), mode="w|", bufsize=BUFFER, format=tarfile.PAX_FORMAT) as tar:
            told = json.dumps(folders).encode()
            first = tarfile.TarInfo(FIRST)
            first.size = len(told)
            tar.addfile(first, io.BytesIO(told))
            for path in (*folders, *files):
                with suppress(*VANISHED):
                    _add(tar, path, modes)
    exchange.write(b"")


@contextmanager
def _opened() -> Iterator[dict[str, int]]:
    """The modes of directories that were opened to look into them; they have them again at the end."""
    modes: dict[str, int] = {}
    try:
        yield modes
    finally:
        for path, mode in reversed(tuple(modes.items())):
            with suppress(OSError):
                os.chmod(path, mode)


def _walk(skip: list[str], modes: dict[str, int]) -> Iterator[tuple[str, float, list[str], list[str]]]:
    """(directory, when it changed, all names in it, paths of what is no directory); a directory before what it holds.

    What vanishes meanwhile is passed over, and what belongs to others and is closed to us: nothing in here can change
    it. Anything else that cannot be looked into is an error: its files would be missing, and nobody would know.
    """
    due = ["/"]
    while due:
        folder = due.pop()
        try:
            found = os.lstat(folder)
            if found.st_uid == os.geteuid() and found.st_mode & 0o500 != 0o500:
                modes[folder] = stat.S_IMODE(found.st_mode)
                os.chmod(folder, modes[folder] | 0o500)
            with os.scandir(folder) as entries:
                kinds = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
        except (*VANISHED, PermissionError):
            continue
        paths = {os.path.join(folder, name): below for name, below in kinds.items()}
        due += [path for path, below in paths.items() if below and path not in skip]
        yield folder, found.st_ctime, list(kinds), [path for path, below in paths.items() if not below]


def _changed(path: str) -> float:
    try:
        return os.lstat(path).st_ctime
    except (*VANISHED, PermissionError):
        return 0.0


def _add(tar: Any, path: str, modes: dict[str, int]) -> None:
    name = path.lstrip("/") or "."
    found = os.lstat(path)
    if stat.S_ISREG(found.st_mode):
        with os.fdopen(_readable(path, found), "rb") as source:
            member = _ours(tar.gettarinfo(arcname=name, fileobj=source))
            tar.addfile(member, Whole(source) if member.isreg() else None)
        return
    member = tar.gettarinfo(path, name)
    if member is not None:
        member.mode = modes.get(path, member.mode)
        tar.addfile(_ours(member))


def _ours(member: Any) -> Any:
    member.uid = member.gid = 0
    return member


def _readable(path: str, found: os.stat_result) -> int:
    """The file opened; we have no power over what our own mode forbids, so that one is changed for a moment."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        return os.open(path, flags)
    except PermissionError:
        mode = stat.S_IMODE(found.st_mode)
        os.chmod(path, mode | 0o400)
        try:
            return os.open(path, flags)
        finally:
            os.chmod(path, mode)


class Whole:
    """A file as long as it was when it was measured: what has been cut off meanwhile is zeros."""

    def __init__(self, source: Any):
        self._source = source

    def read(self, size: int) -> bytes:
        data: bytes = self._source.read(size)
        return data + bytes(size - len(data))


def restore(exchange: Exchange) -> Json:
    """Make this place equal to the one that `collect` was asked in."""
    import tarfile

    skip, folders = set(json.loads(exchange.named("skip"))), []
    source: Any = io.BufferedReader(Reader(exchange.body()), BUFFER)
    with tarfile.open(fileobj=source, mode="r|*") as tar:
        first: Any = tar.next()  # by its place: anything may be called like it
        _clear(json.loads(tar.extractfile(first).read()), skip)  # type: ignore[union-attr]
        for member in tar:
            path = os.path.join("/", member.name)
            if member is first:
                continue
            if member.isdir():
                _directory(path)
                folders.append((path, member.mode, member.mtime))
            elif _made_free(path):
                _extract(tar, member)
    for path, mode, modified in reversed(folders):
        with suppress(OSError):
            os.chmod(path, mode)
            os.utime(path, (modified, modified))
    return {}


def _made_free(path: str) -> bool:
    """False for a file that the runtime has put there, such as /etc/hostname of an engine: each place has its own."""
    import shutil

    try:
        if os.path.isdir(path) and not os.path.islink(path):
            open_all(path)
            shutil.rmtree(path)
        else:
            os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        return False
    return True


def _extract(tar: Any, member: Any) -> None:
    tar.extraction_filter = lambda member, path: member
    tar.extract(member, "/")


def _clear(folders: dict[str, list[str]], skip: set[str]) -> None:
    """A directory comes before what it holds, so that none is reached by a link that stood here in place of one."""
    for folder, kept in folders.items():
        _directory(folder)
        for name in set(os.listdir(folder)) - set(kept):
            path = os.path.join(folder, name)
            # A file is tried: where layers lie over each other, each may seem to come from somewhere else.
            if path not in skip and not (os.path.isdir(path) and os.path.ismount(path)):
                _made_free(path)


def _directory(path: str) -> None:
    """A real one, that we may write in; it gets its own mode in the end."""
    if os.path.islink(path) or not os.path.isdir(path):
        _made_free(path)
        os.makedirs(path)
    open_one(path)
