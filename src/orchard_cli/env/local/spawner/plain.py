"""A sandbox without any isolation, for machines that have none to offer: a copied tree and a session of its own.

Only by name (`isolation=process`). Commands run as this user, see this machine and can harm it.
"""

import os
import shutil
import signal
from collections.abc import Callable
from typing import Any

from .cgroups import Group
from .enter import Door
from .job import Job
from .loop import Loop
from .members import VARIABLE, Members, by_variable
from .streams import Sink

PARTS = ("work", "home", "tmp")


class Plain:
    """Has the face of `Box`. Every process bears its sandbox's number in the environment."""

    def __init__(self, loop: Loop, tree: int, base: str, number: int, group: Group):
        self.tree, self.group, self.workdir = tree, group, f"{base}/work"
        self.jobs: set[Job] = set()
        self.sink = Sink(loop)
        self.dead = ""
        self.door = Door(joins=group.entries, marks=False)
        self._proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.members = Members(self._proc, by_variable)
        self._all = Members(self._proc, _of_sandbox)
        self._loop, self._base, self._number = loop, base, number
        for part in ("", *PARTS):
            os.mkdir(f"{base}/{part}", 0o700)
        self.changes = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def start(self, ready: Callable[[dict[str, Any] | None], None]) -> None:
        ready(None)

    def env(self) -> dict[str, str]:
        return {"HOME": f"{self._base}/home", "TMPDIR": f"{self._base}/tmp", SANDBOX: str(self._number)}

    def parts(self) -> list[str]:
        return list(PARTS)

    def full(self) -> bool:
        return False

    def kill_everyone(self) -> None:
        self._all.send(self._number, signal.SIGKILL)

    def end(self, why: str) -> None:
        self.dead = self.dead or why
        self.kill_everyone()

    def close(self, done: Callable[[], None]) -> None:
        self.end("closed")
        if self.jobs or self._all.pids(self._number) or not self.group.remove():
            self._loop.after(0.002, lambda: self.close(done))
            return
        self.sink.close()
        for fd in (self._proc, self.changes, self.tree):
            os.close(fd)
        shutil.rmtree(self._base, ignore_errors=True)
        done()


SANDBOX = "ORCHARD_SANDBOX"


def _of_sandbox(handle: int, number: int) -> bool:
    return by_variable(handle, number, name=SANDBOX)


def command_mark(number: int) -> dict[str, str]:
    return {VARIABLE: str(number)}
