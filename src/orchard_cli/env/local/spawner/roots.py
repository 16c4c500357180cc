"""What a sandbox sees as its root: read-only lower directories, and one bounded file system for its changes.

`host`: this machine's system directories (/usr and what is linked into it), an /etc of a few generated and
public files, and nothing else. A directory: the root that it holds. Either way every path can be written to;
changes go to the sandbox's own tmpfs, which is as large as its disk limit and is gone with its last user.
"""

import os
import shutil
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from . import kernel

SYSTEM = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")
EMPTY = ("dev", "etc", "home", "media", "mnt", "opt", "proc", "root", "run", "srv", "sys", "tmp", "var")
VAR = ("cache", "lib", "local", "log", "mail", "opt", "spool", "tmp")
PUBLIC = (  # parts of /etc that programs need and that tell nothing about this machine's users
    *("alternatives", "bash.bashrc", "ca-certificates", "ca-certificates.conf", "debian_version", "fonts"),
    *("gai.conf", "host.conf", "inputrc", "java-*-openjdk", "ld.so.cache", "ld.so.conf", "ld.so.conf.d"),
    *("localtime", "magic", "mime.types", "nsswitch.conf", "os-release", "perl", "pki", "profile", "protocols"),
    *("python3*", "rpc", "services", "shells", "skel", "ssl/certs", "ssl/openssl.cnf", "terminfo", "timezone"),
)
GENERATED = {
    "passwd": "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "group": "root:x:0:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
    "hostname": "sandbox\n",
    "resolv.conf": "",
}
STICKY = 0o1777


def build_skeleton(folder: Path, *, network: bool) -> None:
    """The root of image `host` without /usr: links, empty directories, a small /etc. Made once."""
    for name in EMPTY:
        (folder / name).mkdir()
    for name in VAR:
        (folder / "var" / name).mkdir()
    (folder / "var/run").symlink_to("/run")
    for name in ("tmp", "var/tmp"):
        (folder / name).chmod(STICKY)
    (folder / "root").chmod(0o700)
    for name in SYSTEM:
        place = Path("/", name)
        if place.is_symlink():
            (folder / name).symlink_to(os.readlink(place))
        elif place.is_dir():
            (folder / name).mkdir()
    for pattern in PUBLIC:
        for source in Path("/etc").glob(pattern):
            with suppress(OSError):
                _copy(source, folder / source.relative_to("/"))
    for name, text in GENERATED.items():
        (folder / "etc" / name).write_text(text)
    if network:
        with suppress(OSError):
            shutil.copy("/etc/resolv.conf", folder / "etc")
    (folder / "etc/mtab").symlink_to("/proc/self/mounts")


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir() and not source.is_symlink():
        shutil.copytree(source, target, symlinks=True, ignore_dangling_symlinks=True)
    elif source.is_symlink():
        target.symlink_to(os.readlink(source))
    else:
        shutil.copy(source, target)


def system_directories() -> list[str]:
    """Top-level directories that hold programs and are no links; each gets a layer of its own."""
    return [name for name in SYSTEM if Path("/", name).is_dir() and not Path("/", name).is_symlink()]


def overlay(lowers: Sequence[int], changes: int, name: str, target: str, *, userxattr: bool) -> None:
    """Mount `lowers` (directories, the topmost first) at `target`; what is written goes to `changes`/`name`."""
    for part in (name, f"{name}.work"):
        with suppress(FileExistsError):
            os.mkdir(part, 0o755, dir_fd=changes)
    layers = ":".join(f"/proc/self/fd/{lower}" for lower in lowers)
    options = [("lowerdir", layers), *overlay_options(changes, name, userxattr=userxattr)]
    text = ",".join(f"{key}={value}" if value else key for key, value in options)
    kernel.mount("overlay", target, "overlay", kernel.MS_NODEV | kernel.MS_NOSUID, text)


def overlay_options(changes: int, name: str, *, userxattr: bool) -> list[tuple[str, str]]:
    """All but the lower layers. Paths as descriptors: no name can carry an option, nothing is looked up twice."""
    base = f"/proc/self/fd/{changes}"
    upper = [("upperdir", f"{base}/{name}"), ("workdir", f"{base}/{name}.work")]
    return [*upper, *([("userxattr", "")] if userxattr else [("redirect_dir", "off"), ("metacopy", "off")])]


class Escaped(Exception):
    """A path inside the sandbox does not lead where it did when the sandbox was made."""


def point(root: str, path: str, *, file: bool = False) -> int:
    """Open the mount point `path` below `root`, making what is missing; no link is followed."""
    here = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    parts = [part for part in path.split("/") if part not in ("", ".")]
    for index, part in enumerate(parts):
        if part == "..":
            raise Escaped(path)
        last_file = file and index == len(parts) - 1
        try:
            _make(here, part, last_file)
            below = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
        except OSError as error:
            raise Escaped(path) from error
        finally:
            os.close(here)
        mode = os.fstat(below).st_mode
        if not (stat.S_ISREG(mode) if last_file else stat.S_ISDIR(mode)):
            os.close(below)
            raise Escaped(path)
        here = below
    return here


def _make(folder: int, name: str, file: bool) -> None:
    with suppress(FileExistsError):
        if file:
            os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644, dir_fd=folder))
        else:
            os.mkdir(name, 0o755, dir_fd=folder)


def mount_binds(root: str, work: str, workdir: str, binds: Sequence[tuple[str, str]]) -> None:
    """Below `root`; those in the work directory below `work`, where that is mounted for the time being."""
    for source, target in binds:
        there = f"{target}/".startswith(f"{workdir}/")
        base, path = (work, target[len(workdir) :]) if there else (root, target)
        place = point(base, path, file=not os.path.isdir(source))
        try:
            kernel.bind_read_only(source, place)
        finally:
            os.close(place)
