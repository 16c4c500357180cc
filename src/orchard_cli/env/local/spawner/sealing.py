"""How a fork gets the files of its origin: the upper layer of the work directory becomes one that both have below.

The origin goes on with a fresh one: a new overlay is slipped beneath the mounted one, which is then taken away, if
nobody holds a file, a directory or a mapping in it. To whoever looks up a path this is one step; nobody is stopped.
Where that cannot be, and where little was written, files are copied. Runs in a child of the spawner.
"""

import errno
import json
import os
import stat
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple, NoReturn

from . import copy, kernel, roots
from .layers import FIRST

LITTLE_BYTES, LITTLE_ENTRIES = 16 << 20, 200  # copied in a few milliseconds, and no layer more
MOST_LAYERS = 30  # a look-up asks each of them
PATIENCE_S = 0.02  # for a user who came between the question and the deed
TRYING = "trying"  # what is said last by one who died while the origin changed
SEALED, BUSY, STUCK, MOVED, UNKNOWN = range(5)
WHY = {BUSY: "processes use the work directory", MOVED: "the work directory is out of reach"}
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
WATCHERS = ("anon_inode:inotify", "anon_inode:[fanotify]")


class Origin(NamedTuple):
    """As the spawner knows it when the fork begins. `layer` is its upper one as a mount, -1 where there is no such."""

    changes: int
    parts: Sequence[str]
    upper: str
    fresh: str
    below: Sequence[int]
    layer: int
    device: int
    fixed: str
    init: int
    proc: int
    workdir: str
    userxattr: bool


class Found(NamedTuple):
    entries: int
    size: int  # bytes
    linked: bool  # a file has two names: copied up by one of them, it would no longer be the same as the other


def fill(origin: Origin, target: int) -> None:
    """Give the changes of a new sandbox what those of its origin hold, and say how it was done."""
    copy_parts([(origin.changes, part, part) for part in origin.parts], target)
    os.mkdir(FIRST, 0o700, dir_fd=target)
    upper = os.open(origin.upper, DIRECTORY, dir_fd=origin.changes)
    work = os.open(FIRST, DIRECTORY, dir_fd=target)
    found, device = measured(upper), 0
    why, fixed = _reason(origin, found), origin.fixed
    if not why:
        why, fixed, device = _seal(origin, upper)
    copy.copy_tree(upper, work) if why else copy.dress(upper, work)
    _say(json.dumps({"why": why, "fixed": fixed, "device": device, "size": found.size}))


def copy_parts(pairs: Sequence[tuple[int, str, str]], target: int) -> None:
    for folder, name, new in pairs:
        with suppress(FileExistsError):
            os.mkdir(new, 0o700, dir_fd=target)
        copy.copy_tree(os.open(name, DIRECTORY, dir_fd=folder), os.open(new, DIRECTORY, dir_fd=target))


def measured(folder: int) -> Found:
    """How much lies below an open directory; follows nothing."""
    entries, size, linked = 0, 0, False
    with os.scandir(folder) as listing:
        for entry in listing:
            with suppress(OSError):
                found = entry.stat(follow_symlinks=False)
                entries, size = entries + 1, size + found.st_blocks * 512
                if stat.S_ISDIR(found.st_mode):
                    below = os.open(entry.name, DIRECTORY, dir_fd=folder)
                    try:
                        more = measured(below)
                    finally:
                        os.close(below)
                    entries, size, linked = entries + more.entries, size + more.size, linked or more.linked
                elif not stat.S_ISCHR(found.st_mode):  # an overlay's marks for deleted names are one file
                    linked = linked or found.st_nlink > 1
    return Found(entries, size, linked)


def _reason(origin: Origin, found: Found) -> str:
    """Why it had better be copied; empty: to be sealed, if it can."""
    if found.entries <= LITTLE_ENTRIES and found.size <= LITTLE_BYTES:
        return "little was written"
    if found.linked:
        return "a file has several names"
    if len(origin.below) > MOST_LAYERS:
        return f"there are {MOST_LAYERS} layers already"
    if origin.layer < 0:
        return "this kernel cannot mount beneath"
    return origin.fixed or ("a process watches files" if _watched(origin.proc) else "")


def _watched(proc: int) -> bool:
    """Whether anybody inside is told of changes to files: a new overlay has files of its own."""
    for pid in filter(str.isdigit, os.listdir(proc)):
        with suppress(OSError):
            fds = os.open(f"{pid}/fd", DIRECTORY, dir_fd=proc)
            try:
                for fd in os.listdir(fds):
                    with suppress(OSError):
                        if os.readlink(fd, dir_fd=fds) in WATCHERS:
                            return True
            finally:
                os.close(fds)
    return False


def _seal(origin: Origin, upper: int) -> tuple[str, str, int]:
    """(why not, why never again, device of the new overlay); no reason: done."""
    try:
        mount = _overlay(origin, upper)
    except OSError as error:
        return f"no overlay can be made: {error.strerror}", "", 0
    device = os.fstat(mount).st_dev
    _say(TRYING)
    pid = os.fork()
    if pid == 0:
        _become(origin, mount, device)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code == SEALED:
        return "", "", device
    if code == STUCK:
        return WHY[BUSY], "one overlay waits beneath another", 0
    if code not in WHY:
        os._exit(1)  # nobody knows what it has done: said by TRYING
    return WHY[code], "", 0


def _overlay(origin: Origin, upper: int) -> int:
    """That which takes the place of the present one, still without a place."""
    for name in (origin.fresh, f"{origin.fresh}.work"):
        with suppress(FileExistsError):
            os.mkdir(name, 0o755, dir_fd=origin.changes)
    fresh = os.open(origin.fresh, DIRECTORY, dir_fd=origin.changes)
    try:
        copy.dress(upper, fresh)
    finally:
        os.close(fresh)
    layers = [("lowerdir+", f"/proc/self/fd/{layer}") for layer in (origin.layer, *origin.below)]
    own = roots.overlay_options(origin.changes, origin.fresh, userxattr=origin.userxattr)
    return kernel.overlay([("source", "overlay"), *layers, *own, ("index", "off")])


def _become(origin: Origin, mount: int, device: int) -> NoReturn:
    code = MOVED
    with suppress(OSError):
        kernel.setns(origin.init, kernel.CLONE_NEWNS)  # no more: those inside have no power over their own mounts
        parent, name = os.path.split(origin.workdir)
        os.chdir(parent)  # from here its name is enough: nobody can move or replace what is mounted on
        code = swap(name, mount, origin.device, device)
    os._exit(code)


def swap(name: str, mount: int, old: int, new: int) -> int:
    """Put `mount` (device `new`) in the place of that of device `old`; what came of it. Raises: nothing has changed."""
    place = _place(name, old)
    os.close(place)  # we, too, would be a user
    if not _idle(name):
        return BUSY
    place = _place(name, old)
    try:
        kernel.slip_beneath(mount, place)
    finally:
        os.close(place)
    if not _taken_away(name):
        return STUCK
    try:
        os.close(_place(name, new))
    except OSError:
        os._exit(UNKNOWN)  # cannot be
    return SEALED


def _place(name: str, device: int) -> int:
    place = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    if os.fstat(place).st_dev != device:
        os.close(place)
        raise OSError(errno.ESTALE, "something else is mounted there")
    return place


def _idle(name: str) -> bool:
    """The kernel's own count of who uses a mount. Asked once more without any use between, it would take it away."""
    try:
        kernel.umount(name, kernel.MNT_EXPIRE)
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EBUSY):
            raise
        return error.errno == errno.EAGAIN
    os._exit(UNKNOWN)  # cannot be: it is gone


def _taken_away(name: str) -> bool:
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            kernel.umount(name, 0)
            return True
        except OSError:
            if time.monotonic() > until:
                return False
            time.sleep(0.001)


def _say(line: str) -> None:
    os.write(1, line.encode() + b"\n")
