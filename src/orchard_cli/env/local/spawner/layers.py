"""What a work directory is made of: layers that change no more, and one on top that takes what is written."""

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from ...agent.loop import Loop
from . import kernel
from .enter import Door, Plan
from .job import Job

FIRST = "work"
DEADLINE = 600.0  # seconds to remove the files of a sandbox


class Layers:
    """`tree` is the given one, `sealed` those above it, the topmost first; `upper` is a name below the changes.

    A sealed layer is a mount of its own: it lives as long as any sandbox that has it, in whatever order they end.
    """

    def __init__(self, tree: int):
        self.tree, self.upper = tree, FIRST
        self.sealed: list[int] = []
        self.device = 0  # of the overlay that is mounted now
        self.fixed = ""  # why nothing more can be sealed, if so
        self.size = 0  # bytes of its own sealed ones
        self._own: list[str] = []
        self._jobs: list[Job] = []

    @property
    def below(self) -> list[int]:
        return [*self.sealed, self.tree]

    @property
    def fresh(self) -> str:
        """The upper layer that follows this one."""
        return f"{FIRST}.{len(self.sealed) + 1}"

    def mounted(self, place: str) -> None:
        self.device = os.stat(place).st_dev

    def detached(self, changes: int) -> int:
        """The upper layer as a mount of its own; -1 where the kernel has none of that kind."""
        try:
            return kernel.detached(changes, self.upper)
        except OSError:
            return -1

    def outlive(self, changes: int) -> None:
        """Keep a file system mounted for as long as `changes` is open: only then can it become a layer."""
        with suppress(OSError):
            alive = kernel.detached(changes)
            os.dup2(alive, changes, inheritable=False)
            os.close(alive)

    def seal(self, layer: int, device: int, size: int) -> None:
        """What was the upper layer is one more below; the overlay `device` writes to `fresh`."""
        self.size += size
        self._own.append(self.upper)
        self.upper, self.device = self.fresh, device
        self.sealed.insert(0, layer)

    def share(self, other: "Layers") -> None:
        """For a fork of `other`: the same below."""
        for layer in other.sealed:
            self.sealed.append(os.dup(layer))

    def emptying(self, loop: Loop, changes: int) -> bool:
        """At the end: what others have below stays, and should not hold the rest. True while that is removed."""
        if self._own and not self._jobs:
            plan = Plan(partial(_remove_all_but, self._own, changes), inside=False)
            self._own = []
            with suppress(OSError):
                self._jobs.append(Job(loop, Door(), plan, self._jobs.remove, timeout=DEADLINE))
        return bool(self._jobs)

    def close(self) -> None:
        for layer in self.below:
            os.close(layer)
        self.sealed.clear()


def _remove_all_but(kept: Sequence[str], changes: int) -> None:
    folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=changes)
    for name in set(os.listdir(folder)) - set(kept):
        shutil.rmtree(name, ignore_errors=True, dir_fd=folder)
