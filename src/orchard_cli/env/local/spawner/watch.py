"""Looks after limits that the kernel does not keep for us: memory of processes, and their number without cgroups.

The memory cgroup holds what the sandbox wrote to its (in-memory) disk as well, so its hard limit is memory plus
disk; within that, the processes' own share is watched here.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from .box import Box
from .loop import Loop, Timer
from .plain import Plain

PERIOD = 0.1  # seconds


@dataclass(frozen=True)
class Bounds:
    memory: int  # bytes, 0: none
    pids: int  # 0: none


Place = Box | Plain


class Watch:
    """Runs while commands do."""

    def __init__(self, loop: Loop, places: Callable[[], Collection[tuple[Place, Bounds]]]):
        self._loop, self._places = loop, places
        self._timer: Timer | None = None

    def wake(self) -> None:
        if self._timer is None:
            self._timer = self._loop.after(PERIOD, self._look)

    def _look(self) -> None:
        self._timer = None
        busy = [(place, bounds) for place, bounds in self._places() if place.jobs and not place.dead]
        for place, bounds in busy:
            if reason := broken(place, bounds):
                for job in tuple(place.jobs):
                    job.kill(reason)
        if busy:
            self.wake()


def broken(place: Place, bounds: Bounds) -> str:
    """Which bound a sandbox has overstepped, as the reason of an exec result; empty if none."""
    group = place.group
    if bounds.memory:
        if group.counts("memory"):
            over = group.counter("charged") > bounds.memory and group.counter("processes") > bounds.memory
        else:
            over = isinstance(place, Box) and place.members.resident() > bounds.memory
        if over:
            return "oom"
    if bounds.pids and not group.counts("pids") and isinstance(place, Box):
        return "pid_limit" if len(place.members.everyone()) > bounds.pids else ""
    return ""
