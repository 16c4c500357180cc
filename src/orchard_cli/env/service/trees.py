"""Directories that clients upload once, by the hash of their tar; each tenant has its own."""

import asyncio
import hashlib
import os
import re
import secrets
import shutil
import tarfile
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

from ...errors import SandboxError
from ..agent.admission import Refused, admit, as_it_is
from .problem import refused

HASH = re.compile(r"[0-9a-f]{64}")
MAX_TAR = 4 << 30
MAX_BYTES = 16 << 30
MAX_ENTRIES = 400_000
IDLE_S = 86_400.0  # how long an unused tree stays


class Trees:
    """Unpacked below `root`; one that is in use by a sandbox is never removed."""

    def __init__(self, root: Path, max_tar: int = MAX_TAR):
        self._root, self._max_tar = root, max_tar
        self._used: Counter[str] = Counter()
        self._lock = threading.Lock()  # between whoever takes one and whoever sweeps
        shutil.rmtree(root / "part", ignore_errors=True)
        (root / "part").mkdir(parents=True)

    def find(self, tenant: str, hash: str) -> Path | None:
        if not HASH.fullmatch(hash):
            raise refused("a tree is named by the sha256 of its tar, 64 hexadecimal digits", "client.bad_request")
        place = self._root / tenant / hash
        return place if place.is_dir() else None

    def take(self, tenant: str, hash: str) -> Path:
        """The tree for a sandbox, which gives it back with `release`. Raises `client.no_such_tree`."""
        with self._lock:
            place = self.find(tenant, hash)
            if place is None:
                hint = "PUT /v1/trees/<sha256> first"
                raise refused(f"no tree {hash} was uploaded", "client.no_such_tree", hint=hint)
            self._used[str(place)] += 1
            os.utime(place)
        return place

    def retain(self, place: Path) -> None:
        """One more sandbox uses it (a fork)."""
        self._used[str(place)] += 1

    def release(self, place: Path) -> None:
        self._used[str(place)] -= 1

    async def receive(self, tenant: str, hash: str, chunks: AsyncIterator[bytes]) -> Path:
        """Check and unpack an upload. Raises `client.hash_mismatch`, `client.too_large`, `client.bad_tar`."""
        if found := self.find(tenant, hash):
            async for _ in chunks:
                pass
            return found
        part = self._root / "part" / secrets.token_hex(8)
        try:
            await self._store(part.with_suffix(".tar"), hash, chunks)
            return await asyncio.to_thread(self._unpack, part, self._root / tenant / hash)
        except OSError as error:
            raise _disk(error) from error
        finally:
            part.with_suffix(".tar").unlink(missing_ok=True)
            await asyncio.to_thread(shutil.rmtree, part, True)

    async def _store(self, path: Path, hash: str, chunks: AsyncIterator[bytes]) -> None:
        seen, digest = 0, hashlib.sha256()
        with path.open("xb") as file:
            async for chunk in chunks:
                seen += len(chunk)
                if seen > self._max_tar:
                    raise refused(f"the tar has more than {self._max_tar} bytes", "client.too_large")
                digest.update(chunk)
                file.write(chunk)
        if digest.hexdigest() != hash:
            raise refused("the bytes that came do not have this hash", "client.hash_mismatch", retry="same")

    def _unpack(self, part: Path, target: Path) -> Path:
        part.mkdir()
        try:
            unpack(part.with_suffix(".tar"), part)
        except (tarfile.TarError, EOFError, ValueError) as error:
            raise refused(f"the tar is refused: {error}", "client.bad_tar") from error
        target.parent.mkdir(exist_ok=True)
        if not target.is_dir():  # two uploads of the same may end together
            part.rename(target)
        return target

    def sweep(self, now: float | None = None) -> int:
        """Remove trees that nothing uses; how many. Whenever this breaks off, a name has a whole tree or none."""
        old = (now or time.time()) - IDLE_S
        gone = 0
        for place in self._root.glob("*/*"):
            if place.parent.name != "part" and (part := self._take_away(place, old)):
                shutil.rmtree(part, ignore_errors=True)
                gone += 1
        return gone

    def _take_away(self, place: Path, old: float) -> Path | None:
        with self._lock, suppress(FileNotFoundError):  # another sweep was first
            if not self._used[str(place)] and place.stat().st_mtime < old:
                return place.rename(self._root / "part" / secrets.token_hex(8))
        return None


def unpack(tar: Path, target: Path) -> None:
    """Files and directories first, links last, so that nothing can be written through a link.

    Links may point anywhere: they are followed inside sandboxes only. Raises `tarfile.TarError`.
    """
    with tarfile.open(tar, "r:") as archive:
        extract(archive, target)


def extract(archive: tarfile.TarFile, target: Path, left_out: list[str] | None = None) -> int:
    """See `unpack`; also for a stream. `target` must be new: nothing in it is looked at. Returns bytes of files."""
    entries = size = 0
    links: list[tarfile.TarInfo] = []
    archive.extraction_filter, top = as_it_is, os.path.realpath(target)
    for member in archive:
        entries, size = entries + 1, size + member.size
        if entries > MAX_ENTRIES or size > MAX_BYTES:
            raise tarfile.TarError(f"more than {MAX_ENTRIES} entries or {MAX_BYTES} bytes")
        if member.issym():
            links.append(member)
        elif member.isreg() or member.isdir() or member.islnk():
            _admit(member, top)
            archive.extract(member, target)
        elif left_out is not None:
            left_out.append(member.name)
        else:
            raise tarfile.TarError(f"{member.name!r} is neither file, directory nor link")
    for link in links:
        _link(target.resolve(), link)
    return size


def _admit(member: tarfile.TarInfo, top: str) -> None:
    try:
        admit(member, top)
    except Refused as error:
        raise tarfile.TarError(str(error)) from error


def _link(root: Path, link: tarfile.TarInfo) -> None:
    path = root / link.name
    if ".." in path.parts or not path.is_relative_to(root) or path.parent.resolve() != path.parent:
        raise tarfile.TarError(f"{link.name!r} leads outside")
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink() or path.exists():
        raise tarfile.TarError(f"{link.name!r} is there twice")
    path.symlink_to(link.linkname)


def _disk(error: OSError) -> SandboxError:
    full = error.errno in (28, 122)
    code = "infra.disk_full" if full else "infra.disk"
    return SandboxError(f"the server's disk refused: {error.strerror}", code=code, effect="none", retry="same")
