"""The diff of a contained sandbox's work directory: what comes out of it as a tar, against what it was made from.

The tar is hostile: names are walked by descriptors and no link is followed. A file that has kept its size, mode and
time is not written out at all, so that a large tree costs no more than reading it.
"""

import json
import os
import stat
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from io import RawIOBase
from pathlib import Path
from typing import IO, cast

from ...errors import SandboxError
from ..agent.closed import clear
from ..agent.trees import LEFT_OUT
from ..channel import Channel
from ..local.bare import bare
from ..local.link import fault
from ..local.spawner.changes import MOST

DEADLINE_S, CAP = 300.0, 1 << 27
CHUNK = 1 << 20
FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
REFUSED = 7
DIFFERENCE = """
import os
import sys
from env.local.spawner.changes import difference
from env.local.spawner.enter import Refused
try:
    difference(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), everything=True)
except Refused as refused:
    import json
    print(json.dumps(refused.record), file=sys.stderr)
    sys.exit(7)
"""


def diff(channel: Channel, workdir: str, before: Path | None, scratch: Path) -> bytes:
    """As git would say it. Raises `SandboxError`."""
    folder = Path(tempfile.mkdtemp(prefix="diff-", dir=scratch))
    try:
        for name in ("git", "new", "old"):
            (folder / name).mkdir()
        lower = os.open(before if before is not None else folder / "old", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        upper = os.open(folder / "new", FLAGS)
        try:
            query = {"path": workdir, "closed": 1}
            write_out(channel.download("/v1/tar", query=query, wait_s=DEADLINE_S), upper, lower)
            return _difference(folder / "git", upper, lower)
        finally:
            os.close(upper)
            os.close(lower)
    finally:
        clear(str(folder))


def _difference(scratch: Path, upper: int, lower: int) -> bytes:
    argv = bare(DIFFERENCE, str(scratch), str(upper), str(lower))
    with tempfile.TemporaryFile() as out:
        try:
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.PIPE,
                pass_fds=(upper, lower),
                timeout=DEADLINE_S,
            )
        except subprocess.TimeoutExpired:
            raise _failed(f"git took more than {DEADLINE_S} s") from None
        said = done.stderr.decode(errors="replace").strip()
        if done.returncode == REFUSED:
            raise fault({"effect": "none", **json.loads(said.rpartition("\n")[2])})
        if done.returncode:
            raise _failed(said[-500:])
        if out.tell() > CAP:
            raise SandboxError("the diff is too large", code="workload.too_large", attributable="model", effect="none")
        out.seek(0)
        return out.read()


def _failed(why: str) -> SandboxError:
    return SandboxError(f"no diff: {why}", code="infra.git_failed", effect="none")


class Pieces(RawIOBase):
    """A stream of pieces as a file."""

    def __init__(self, pieces: Iterator[bytes]):
        self._pieces, self._rest = pieces, memoryview(b"")

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return b""
            self._rest = memoryview(piece)
        data, self._rest = bytes(self._rest[:size]), self._rest[size:]
        return data


class Room:
    """Bytes of changed files that may still come: a file with a hole has no size that a sandbox would have to bear."""

    def __init__(self) -> None:
        self._left = MOST

    def take(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            text = f"no diff: more than {MOST >> 20} MiB of changed files"
            raise SandboxError(text, code="workload.diff_too_large", attributable="model", effect="none")


def write_out(pieces: Iterator[bytes], target: int, before: int) -> None:
    """Files, links and directories below `target`; what is as it was `before` becomes a hole of the same size."""
    room = Room()
    try:
        with tarfile.open(fileobj=cast(IO[bytes], _Whole(Pieces(pieces))), mode="r|", bufsize=CHUNK) as tar:
            for member in tar:
                _check_whole(tar.pax_headers.get(LEFT_OUT, ""))
                if member.size and not member.isreg():  # it would be read past, however much it says
                    raise ValueError(f"{member.name[:100]} is no file and has a size")
                if member.name != ".":
                    _member(tar, member, target, before, room)
    except (tarfile.TarError, OSError, ValueError, AttributeError, TypeError, RecursionError) as error:
        raise SandboxError(
            f"the work directory cannot be read: {error}", code="infra.bad_archive", effect="none"
        ) from error


def _check_whole(said: str) -> None:
    """What the archive says that it lacks."""
    absent = json.loads(said) if said else {}
    if absent.get("deep"):
        text = "no diff: directories lie deeper than a path is long"
        raise SandboxError(text, code="workload.too_deep", attributable="model", effect="none")
    if absent.get("closed"):
        raise ValueError(f"some of it belongs to others: {said[:300]}")


class _Whole:
    """`tarfile` takes a short read for the end."""

    def __init__(self, source: Pieces):
        self._source = source

    def read(self, size: int) -> bytes:
        parts = []
        while size > 0 and (data := self._source.read(size)):
            parts.append(data)
            size -= len(data)
        return b"".join(parts)


def _member(tar: tarfile.TarFile, member: tarfile.TarInfo, target: int, before: int, room: Room) -> None:
    parts = [part for part in member.name.split("/") if part not in ("", ".")]
    if not parts or ".." in parts:
        raise ValueError(f"a name in it leads outside: {member.name[:100]}")
    folder = _enter(target, parts[:-1])
    try:
        name = parts[-1]
        if member.isdir():
            with suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=folder)
        elif member.issym():
            os.symlink(member.linkname, name, dir_fd=folder)
        elif member.islnk():
            _link(target, member.linkname, folder, name)
        elif member.isreg():
            old = _found(before, parts)
            same = old if old is not None and _same(member, old) else None
            if same is None:
                room.take(member.size)
            _file(tar, member, folder, name, same)
    finally:
        os.close(folder)


def _enter(top: int, parts: list[str]) -> int:
    here = os.dup(top)
    for part in parts:
        try:
            with suppress(FileExistsError):
                os.mkdir(part, 0o700, dir_fd=here)
            below = os.open(part, FLAGS, dir_fd=here)
        finally:
            os.close(here)
        here = below
    return here


def _link(top: int, first: str, folder: int, name: str) -> None:
    parts = [part for part in first.split("/") if part not in ("", ".")]
    if not parts or ".." in parts:
        raise ValueError("a link in it leads outside")
    source = _enter(top, parts[:-1])
    try:
        os.link(parts[-1], name, src_dir_fd=source, dst_dir_fd=folder, follow_symlinks=False)
    finally:
        os.close(source)


def _found(before: int, parts: list[str]) -> os.stat_result | None:
    """What was there before; the way to it may hold links of its own."""
    here = os.dup(before)
    try:
        for part in parts[:-1]:
            below = os.open(part, FLAGS, dir_fd=here)
            os.close(here)
            here = below
        return os.lstat(parts[-1], dir_fd=here)
    except OSError:
        return None
    finally:
        os.close(here)


def _file(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: int, name: str, same: os.stat_result | None) -> None:
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        os.fchmod(fd, member.mode & 0o777)
        if same is not None:
            os.ftruncate(fd, member.size)
            os.utime(fd, ns=(same.st_atime_ns, same.st_mtime_ns))
            return
        source = tar.extractfile(member)
        while source is not None and (data := source.read(CHUNK)):
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
        os.utime(fd, ns=(0, 0))  # no time that could be taken for the old one's
    finally:
        os.close(fd)


def _same(member: tarfile.TarInfo, old: os.stat_result) -> bool:
    """A tar tells times as decimal fractions, which lose the last digits."""
    mode = stat.S_ISREG(old.st_mode) and stat.S_IMODE(old.st_mode) == member.mode & 0o7777
    return mode and old.st_size == member.size and abs(old.st_mtime_ns / 1e9 - member.mtime) < 1e-6
