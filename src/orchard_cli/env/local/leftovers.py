"""What remains when driver and spawner were both killed: an empty folder, empty cgroups. Removed at the next start."""

import os
import re
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from .spawner import kernel

NAME = re.compile(r"orchard-env-(\d+)-(\d+)-")


def prefix(owner: int = 0) -> str:
    """Of the folder of a new environment: names its owner (0: us), so that others can tell when it is dead."""
    owner = owner or os.getpid()
    return f"orchard-env-{owner}-{_started(owner)}-"


def sweep() -> None:
    """Remove what dead owners left."""
    for folder in Path(tempfile.gettempdir()).glob("orchard-env-*"):
        owner = NAME.match(folder.name)
        if owner and _started(int(owner[1])) != int(owner[2]):
            remove(folder)


def remove(folder: Path) -> None:
    """The folder of an environment and the cgroups of the same name; nothing if the spawner did it already."""
    _unmount(folder)
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        for line in Path("/proc/self/mountinfo").read_text().splitlines():
            left, _, right = line.partition(" - ")
            if right.startswith(("cgroup ", "cgroup2 ")):
                _remove_cgroups(Path(left.split(" ")[4]), folder.name)


def _unmount(folder: Path) -> None:
    """What the store of a container engine leaves there when nobody closed it."""
    with suppress(OSError):
        points = [line.split(" ")[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        for point in reversed([point for point in points if point.startswith(f"{folder}/")]):
            kernel.umount(point)


def _remove_cgroups(mount: Path, name: str) -> None:
    own = [line.split(":", 2)[2].strip() for line in Path("/proc/self/cgroup").read_text().splitlines()]
    places = {mount / path.lstrip("/") / name for path in own} | {mount / name}
    for place in places:
        if place.is_dir():
            for below in (*place.glob("*/"), place):
                with suppress(OSError):
                    below.rmdir()


def _started(pid: int) -> int:
    """When a process began, in ticks since boot; 0 if there is none."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0
