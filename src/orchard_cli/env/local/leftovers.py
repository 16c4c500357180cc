"""What remains when driver and spawner were both killed: a folder, cgroups, perhaps what runs in them.

All of it is removed at the next start.
"""

import os
import re
import shutil
import signal
import tempfile
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

from .spawner import kernel

CLEAR_S = 5.0
NAME = re.compile(r"orchard-env-(\d+)-(\d+)-")


def prefix(owner: int = 0) -> str:
    """Of the folder of a new environment: names its owner (0: us), so that others can tell when it is dead."""
    owner = owner or os.getpid()
    return f"orchard-env-{owner}-{started(owner)}-"


def sweep() -> None:
    """Remove what dead owners left."""
    for folder in Path(tempfile.gettempdir()).glob("orchard-env-*"):
        owner = NAME.match(folder.name)
        if owner and started(int(owner[1])) != int(owner[2]):
            remove(folder)


def _settle(folder: Path) -> None:
    """Wait for what is ending: a container's monitor never does when its folder goes before it."""
    until = time.monotonic() + CLEAR_S
    while any(map(partial(_names, folder.name.encode()), Path("/proc").glob("[0-9]*/cmdline"))):
        if time.monotonic() > until:
            return
        time.sleep(0.05)


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
        shutil.rmtree(folder, ignore_errors=True)


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
        with suppress(OSError, ValueError):
            for pid in map(int, (below / "cgroup.procs").read_text().split()):
                if pid and pid != os.getpid():
                    os.kill(pid, signal.SIGKILL)
        with suppress(OSError):
            below.rmdir()
    return not place.exists()


def started(pid: int) -> int:
    """When a process began, in ticks since boot; 0 if there is none, or one that only waits to be collected."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return 0 if words[0] in "ZX" else int(words[19])
    except (OSError, ValueError, IndexError):
        return 0
