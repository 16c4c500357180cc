"""The layers of an image, one over the other, as one directory. They are hostile: nothing lands outside of it.

Everything becomes ours: inside a sandbox there is one user, without the power to read what belongs to others. Devices
and sockets are left out.
"""

import gzip
import os
import shutil
import tarfile
from contextlib import suppress
from pathlib import Path
from typing import IO, cast

WHITEOUT, OPAQUE = ".wh.", ".wh..wh..opq"
MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5": "zstd"}
MOST_LINKS, MOST_BYTES = 40, 64 << 30
FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def unpack(archive: tarfile.TarFile, layer: str | None, root: Path) -> None:
    """`layer` of an archive over what is in `root`; None: the archive's own members. Raises `ValueError`, `OSError`."""
    if layer is None:
        _members(archive, root)
        return
    source = archive.extractfile(layer)
    if source is None:
        raise ValueError(f"the layer {layer} is no file")
    start = source.read(2)
    source.seek(0)
    with tarfile.open(fileobj=_plain(source, MAGIC.get(start, "")), mode="r|") as tar:
        _members(tar, root)


def _plain(source: IO[bytes], packing: str) -> IO[bytes]:
    if packing == "gzip":
        return cast(IO[bytes], gzip.GzipFile(fileobj=source))
    if packing == "zstd":
        import zstandard

        return cast(IO[bytes], zstandard.ZstdDecompressor().stream_reader(source, read_across_frames=True))
    return source


def _members(tar: tarfile.TarFile, root: Path) -> None:
    size, folders = 0, []
    for member in tar:
        parts = [part for part in member.name.split("/") if part not in ("", ".")]
        if ".." in parts:
            raise ValueError(f"a name leads outside: {member.name[:100]}")
        size += member.size
        if size > MOST_BYTES:
            raise ValueError(f"more than {MOST_BYTES >> 30} GiB")
        if parts:
            path = place(root, parts[:-1]) / parts[-1]
            _member(tar, member, path, root)
            if member.isdir():
                folders.append((path, member))
    for path, member in reversed(folders):
        with suppress(OSError):  # what came later took its place
            folder = _open(root, path)
            try:
                os.fchmod(folder, member.mode & 0o7777 | 0o700)
                os.utime(folder, (member.mtime, member.mtime))
            finally:
                os.close(folder)


def _open(root: Path, path: Path) -> int:
    """The directory `path` below `root`, if no part of it has become a link meanwhile."""
    here = os.open(root, FLAGS)
    for part in path.relative_to(root).parts:
        try:
            below = os.open(part, FLAGS, dir_fd=here)
        finally:
            os.close(here)
        here = below
    return here


def _member(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path, root: Path) -> None:
    if path.name == OPAQUE:
        for below in path.parent.iterdir():
            _remove(below)
    elif path.name.startswith(WHITEOUT):
        if (name := path.name.removeprefix(WHITEOUT)) in ("", ".", ".."):
            raise ValueError(f"{path.name} hides nothing that could be there")
        _remove(path.with_name(name))
    elif member.isdir():
        if path.is_symlink() or not path.is_dir():
            _remove(path)
            path.mkdir()
    elif member.issym():
        _remove(path)
        path.symlink_to(member.linkname)
    elif member.islnk():
        parts = [part for part in member.linkname.split("/") if part not in ("", ".")]
        if ".." in parts or not parts:
            raise ValueError("a hard link leads outside")
        _remove(path)
        os.link(place(root, parts[:-1]) / parts[-1], path, follow_symlinks=False)
    elif member.isreg():
        _remove(path)
        _file(tar, member, path)


def _file(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    source = tar.extractfile(member)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as target:
        if source is not None:
            shutil.copyfileobj(source, target, 1 << 20)
        os.fchmod(fd, member.mode & 0o7777)
    os.utime(path, (member.mtime, member.mtime))


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def place(root: Path, parts: list[str], *, make: bool = True) -> Path:
    """The directory `parts` as a process sees it whose root is `root`; made if it is not there. Raises `ValueError`."""
    here, left, followed = root, list(reversed(parts)), 0
    while left:
        part = left.pop()
        if part in ("", "."):
            continue
        if part == "..":
            here = here.parent if here != root else root
            continue
        below = here / part
        if below.is_symlink():
            followed += 1
            if followed > MOST_LINKS:
                raise ValueError("too many links")
            target = str(below.readlink())
            here = root if target.startswith("/") else here
            left += reversed(target.split("/"))
            continue
        if make:
            with suppress(FileExistsError):
                below.mkdir()
        if not below.is_dir():
            raise ValueError(f"{below.name} is no directory")
        here = below
    return here
