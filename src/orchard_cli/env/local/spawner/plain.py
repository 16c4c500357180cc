"""A sandbox without any isolation, for machines that have none to offer: a copied tree and a session of its own.

Only by name (`isolation=process`). Commands run as this user, see this machine and can harm it.
"""

import os
import signal
from collections.abc import Callable
from functools import partial
from typing import Any

from ...agent.closed import clear
from ...agent.loop import Loop
from ...agent.members import Members, by_variable
from .agents import AgentProcess
from .cgroups import Group
from .enter import Door
from .ground import Bounds, Fenced
from .job import Job

PARTS = ("work", "home", "tmp")


class Plain:
    """Has the face of `Box`. Every process bears its sandbox's number in the environment."""

    def __init__(self, loop: Loop, tree: int, base: str, group: Group, *, bounds: Bounds, host: int):
        self.tree, self.group, self.workdir = tree, group, f"{base}/work"
        self.jobs: set[Job] = set()
        self.agent: AgentProcess | None = None
        self.dead = self.way = ""
        self.door = Door()
        self._bounds, self._host = bounds, host
        self._proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._all = Members(self._proc, _of_sandbox)
        self._loop, self._base = loop, base
        # Of all environments of this machine: another one's first sandbox must not be taken for ours.
        self._number = int.from_bytes(os.urandom(7), "big")
        for part in ("", *PARTS):
            os.mkdir(f"{base}/{part}", 0o700)
        self.changes = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def start(self, ready: Callable[[dict[str, Any] | None], None]) -> None:
        make = partial(Fenced, self.group, self._bounds)
        name = os.path.basename(self._base)
        self.agent = AgentProcess(
            self._loop, self._host, name, self.workdir, make, lambda: self.end("its agent has ended")
        )
        ready(None)

    def env(self) -> dict[str, str]:
        return {"HOME": f"{self._base}/home", "TMPDIR": f"{self._base}/tmp", SANDBOX: str(self._number)}

    def kill_everyone(self) -> None:
        self._all.send(self._number, signal.SIGKILL)

    def end(self, why: str) -> None:
        self.dead = self.dead or why
        if self.agent is not None:
            self.agent.end()
        self.kill_everyone()

    def close(self, done: Callable[[], None]) -> None:
        self.end("closed")
        alive = self.agent is not None and not self.agent.gone
        if self.jobs or alive or self._all.pids(self._number) or not self.group.remove():
            self._loop.after(0.002, lambda: self.close(done))
            return
        for fd in (self._proc, self.changes, self.tree):
            os.close(fd)
        clear(str(self._base))
        done()


SANDBOX = "ORCHARD_SANDBOX"


def _of_sandbox(handle: int, number: int) -> bool:
    return by_variable(handle, number, name=SANDBOX)
