"""A directory as one tar with a hash that depends on its content only, made once for as long as it does not change."""

import hashlib
import os
import stat
import tarfile
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from ...errors import SandboxError

MOST = 2 << 30  # bytes that are uploaded for one directory


class Hashes:
    """Directory → hash of its tar. A walk over names, sizes and times tells whether it changed."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[str, str]] = {}
        self._lock = threading.Lock()

    def known(self, folder: Path) -> str:
        """The hash, or empty if the directory must be packed first."""
        signature = _signature(folder)
        with self._lock:
            found = self._known.get(folder, ("", ""))
        return found[1] if found[0] == signature else ""

    def learn(self, folder: Path, signature: str, hash: str) -> None:
        with self._lock:
            self._known[folder] = (signature, hash)

    def pack(self, folder: Path) -> tuple[IO[bytes], str]:
        """The tar in a temporary file, and its hash. Raises `SandboxError` if it is too large to be sent."""
        signature = _signature(folder)
        file = tempfile.TemporaryFile()  # noqa: SIM115 - handed on
        try:
            pack(folder, file)
            hash = _hash(file)
        except BaseException:
            file.close()
            raise
        self.learn(folder, signature, hash)
        return file, hash


def pack(folder: Path, file: IO[bytes]) -> None:
    """Sorted, owned by root; sockets, pipes and devices left out."""
    size = 0
    with tarfile.open(fileobj=file, mode="w:", format=tarfile.GNU_FORMAT) as archive:
        for path, name in _walk(folder):
            archive.inodes = {}  # type: ignore[attr-defined] # a hard link is a file like any other
            member = archive.gettarinfo(path, name)
            if member is None or not (member.isreg() or member.isdir() or member.issym()):
                continue
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mtime = int(member.mtime)
            size += member.size
            if size > MOST:
                raise SandboxError(
                    f"{folder} has more than {MOST >> 30} GiB, too much to send to a server",
                    code="client.too_large",
                    attributable="client",
                    effect="none",
                    retry="never",
                    hint="run the server on this machine, as this user: it then reads the directory itself",
                )
            if member.isreg():
                with Path(path).open("rb") as content:
                    archive.addfile(member, content)
            else:
                archive.addfile(member)


def _walk(folder: Path) -> Iterator[tuple[str, str]]:
    """(path, name inside), parents first, in an order that depends on names only."""
    root = str(folder)
    for place, folders, files in os.walk(root):
        folders.sort()
        inside = "" if place == root else place[len(root) + 1 :] + "/"
        for name in sorted(folders + files):
            yield f"{place}/{name}", inside + name


def _signature(folder: Path) -> str:
    digest = hashlib.blake2b()
    for path, name in _walk(folder):
        found = os.lstat(path)
        size = 0 if stat.S_ISDIR(found.st_mode) else found.st_size
        facts = (name, found.st_mode, size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
        digest.update(repr(facts).encode(errors="surrogateescape"))
    return digest.hexdigest()


def _hash(file: IO[bytes]) -> str:
    file.seek(0)
    digest = hashlib.sha256()
    while piece := file.read(1 << 20):
        digest.update(piece)
    file.seek(0)
    return digest.hexdigest()
