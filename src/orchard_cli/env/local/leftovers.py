"""What remains when driver and spawner were both killed: a folder, cgroups, perhaps what runs in them.

All of it is removed at the next start.
"""

import os
import re
import signal
import stat
import tempfile
import time
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path

from ..agent.closed import clear
from .spawner import kernel

CLEAR_S = 5.0
DRIVER = "driver"  # a file that names a process at work in the folder
NAME = re.compile(r"orchard-env-(\d+)-(\d+)-")


def prefix(owner: int = 0) -> str:
    """Of the folder of a new environment: names its owner (0: us), so that others can tell when it is dead."""
    owner = owner or os.getpid()
    return f"orchard-env-{owner}-{started(owner)}-"


def sweep() -> None:
    """Remove what dead owners left. What bears such a name and is another user's is nothing for us to walk through."""
    for folder in Path(tempfile.gettempdir()).glob("orchard-env-*"):
        owner = NAME.match(folder.name)
        if owner and _ours(folder) and started(int(owner[1])) != int(owner[2]) and not _claimed(folder):
            remove(folder)


def _ours(folder: Path) -> bool:
    with suppress(OSError):
        found = folder.lstat()
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    return False


def claim(folder: Path) -> None:
    """We work there, whoever owns it: where the owner dies, and we do not, all of it is still in use."""
    part = folder / f"{DRIVER}.part"
    part.write_text(f"{os.getpid()} {started(os.getpid())}")
    part.replace(folder / DRIVER)


def _claimed(folder: Path) -> bool:
    with suppress(OSError, ValueError):
        pid, began = (folder / DRIVER).read_text().split()
        return started(int(pid)) == int(began)
    return False


def _settle(folder: Path) -> None:
    """Wait for what is ending: a container's monitor never does when its folder goes before it.

    An agent that nobody has visited yet, or that missed its driver's end, is ended, and its container with it.
    """
    until = time.monotonic() + CLEAR_S
    while any(map(partial(_names, folder.name.encode()), Path("/proc").glob("[0-9]*/cmdline"))):
        if time.monotonic() > until + CLEAR_S:
            return
        if time.monotonic() > until:
            _end_agents(folder.name)
        time.sleep(0.05)


def _end_agents(name: str) -> None:
    for cmdline in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = cmdline.read_bytes().decode(errors="replace").split("\0")
            if words[-1:] == [""] and any(
                (word, after.rpartition("-")[0]) == ("--sandbox", name) for word, after in pairwise(words)
            ):
                os.kill(int(cmdline.parent.name), signal.SIGKILL)


def _names(word: bytes, cmdline: Path) -> bool:
    with suppress(OSError):
        return word in cmdline.read_bytes()
    return False


def remove(folder: Path) -> None:
    """The folder of an environment, and the cgroups of the same name with all that runs there.

    The folder stays where they could not be removed yet: the next start finds them by it.
    """
    cleared = _cleared(folder.name)
    _settle(folder)
    _unmount(folder)
    if cleared:
        clear(str(folder))


def _unmount(folder: Path) -> None:
    """What the store of a container engine leaves there when nobody closed it."""
    with suppress(OSError):
        points = [line.split(" ")[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        for point in reversed([point for point in points if point.startswith(f"{folder}/")]):
            kernel.umount(point)


def _cleared(name: str) -> bool:
    """What was killed takes a moment to be gone."""
    until = time.monotonic() + CLEAR_S
    while any([not _removed(place) for place in _cgroups(name)]):
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def _cgroups(name: str) -> list[Path]:
    """Of an environment, in each hierarchy."""
    found: list[Path] = []
    with suppress(OSError):
        own = [line.split(":", 2)[2].strip() for line in Path("/proc/self/cgroup").read_text().splitlines()]
        for line in Path("/proc/self/mountinfo").read_text().splitlines():
            left, _, right = line.partition(" - ")
            if right.startswith(("cgroup ", "cgroup2 ")):
                mount = Path(left.split(" ")[4])
                found += {mount / path.lstrip("/") / name for path in own} | {mount / name}
    return [place for place in found if place.is_dir()]


def _removed(place: Path) -> bool:
    for below in (*place.glob("*/"), place):
        kill(below)
        with suppress(OSError):
            below.rmdir()
    return not place.exists()


def kill(cgroup: Path) -> None:
    with suppress(OSError, ValueError):
        for pid in map(int, (cgroup / "cgroup.procs").read_text().split()):
            if pid and pid != os.getpid():
                os.kill(pid, signal.SIGKILL)


def started(pid: int) -> int:
    """When a process began, in ticks since boot; 0 if there is none, or one that only waits to be collected."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return 0 if words[0] in "ZX" else int(words[19])
    except (OSError, ValueError, IndexError):
        return 0
