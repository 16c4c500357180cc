"""All that has changed in a container since it was made, out of one and into another: what a fork is made of.

A tar whose first member names, for each directory that has changed, all that is in it: what else was there is gone.
Takes everything as it is: what goes in and out is one sandbox's own.
"""

from __future__ import annotations

import errno
import io
import json
import os
from collections.abc import Iterator
from contextlib import suppress

from .kinds import Any
from .problem import Json
from .transfer import Exchange
from .trees import BUFFER, Reader, Writer

FIRST = "changed"
MARGIN_S = 0.5


def collect(exchange: Exchange) -> None:
    """What has changed after `since`, in seconds since 1970, but below the directories of the JSON list `skip`."""
    import tarfile

    since = exchange.request.number("since", 0.0) - MARGIN_S
    folders: dict[str, list[str]] = {}
    files: list[str] = []
    for folder, names, others in _walk(json.loads(exchange.named("skip"))):
        if os.lstat(folder).st_ctime > since:
            folders[folder] = names
        files += [path for path in others if _changed(path) > since]
    exchange.head(200, "application/x-tar")
    with tarfile.open(fileobj=Writer(exchange), mode="w|", bufsize=BUFFER, format=tarfile.PAX_FORMAT) as tar:
        told = json.dumps(folders).encode()
        first = tarfile.TarInfo(FIRST)
        first.size = len(told)
        tar.addfile(first, io.BytesIO(told))
        for path in (*folders, *files):
            with suppress(FileNotFoundError, PermissionError):
                _add(tar, path)
    exchange.write(b"")


def _walk(skip: list[str]) -> Iterator[tuple[str, list[str], list[str]]]:
    """(directory, all names in it, paths of what is no directory)."""
    for folder, below, files in os.walk("/"):
        names = [*below, *files]
        below[:] = [name for name in below if os.path.join(folder, name) not in skip]
        links = [name for name in below if os.path.islink(os.path.join(folder, name))]
        yield folder, names, [os.path.join(folder, name) for name in (*files, *links)]


def _changed(path: str) -> float:
    try:
        return os.lstat(path).st_ctime
    except OSError:
        return 0.0


def _add(tar: Any, path: str) -> None:
    member = tar.gettarinfo(path, path.lstrip("/") or ".")
    if member is None:
        return
    member.uid = member.gid = 0
    if member.isreg():
        with open(path, "rb") as source:
            tar.addfile(member, source)
    else:
        tar.addfile(member)


def restore(exchange: Exchange) -> Json:
    """Make this place equal to the one that `collect` was asked in."""
    import tarfile

    skip, folders = set(json.loads(exchange.named("skip"))), []
    source: Any = io.BufferedReader(Reader(exchange.body()), BUFFER)
    with tarfile.open(fileobj=source, mode="r|*") as tar:
        for member in tar:
            path = os.path.join("/", member.name)
            if member.name == FIRST:
                told = tar.extractfile(member)
                _clear(json.loads(told.read()) if told is not None else {}, skip)
            elif member.isdir():
                os.makedirs(path, exist_ok=True)
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
    try:
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
    import shutil

    for folder, kept in folders.items():
        if not os.path.isdir(folder) or os.path.islink(folder):
            continue
        for name in set(os.listdir(folder)) - set(kept):
            path = os.path.join(folder, name)
            if path in skip or os.path.ismount(path):
                continue
            shutil.rmtree(path, ignore_errors=True) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(
                path
            )
