"""The agents of the sandboxes: forks of the spawner, each with a socket that the driver connects to."""

import gc
import os
import socket
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from ...agent.agent import Agent
from ...agent.children import close_all_but
from ...agent.loop import Loop
from ...agent.members import text
from .ground import Fenced

BACKLOG = 512
Make = Callable[[], Fenced]


class AgentProcess:
    """`lost` is called when it ends; whoever made it must then, or before, call `end`, and wait for `gone`."""

    def __init__(self, loop: Loop, host: int, name: str, workdir: str, make: Make, lost: Callable[[], None]):
        self.token = os.urandom(16).hex()
        self.gone = False
        self._loop, self._host, self._name, self._lost = loop, host, f"{name}.sock", lost
        with socket.socket(socket.AF_UNIX) as listener:
            # By descriptor: the driver's view of this folder, which a mount hides from us.
            listener.bind(f"/proc/self/fd/{host}/{self._name}")
            listener.listen(BACKLOG)
            self._pid = os.fork()
            if self._pid == 0:
                _become(make, listener, name, self.token, workdir)
        self._pidfd = os.pidfd_open(self._pid)
        loop.watch(self._pidfd, self._ended)

    def end(self) -> None:
        if not self.gone:
            with suppress(ProcessLookupError):
                os.kill(self._pid, 9)

    def look(self) -> None:
        """Whether it has ended, without waiting for the loop to tell."""
        if not self.gone and os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            self._ended()

    def held_up(self) -> bool:
        """Whether the process that it made last is stopped. One that is slow is only slow: the machine may be busy."""
        with suppress(OSError, IndexError):  # a kernel without such lists, or it has ended
            newest = text(f"/proc/{self._pid}/task/{self._pid}/children", None).split()[-1]
            return text(f"/proc/{newest}/stat", None).rpartition(") ")[2][0] in "Tt"
        return False

    def _ended(self) -> None:
        os.waitpid(self._pid, 0)
        self._loop.unwatch(self._pidfd)
        os.close(self._pidfd)
        with suppress(FileNotFoundError):
            os.unlink(self._name, dir_fd=self._host)
        self.gone = True
        self._lost()


def _become(make: Make, listener: socket.socket, name: str, token: str, workdir: str) -> NoReturn:
    try:
        ground = make()
        close_all_but({listener.fileno(), *ground.needs()}, beyond=1 << 20)  # to list thousands would take longer
        ground.enter()
        agent = Agent(listener, ground, sandbox=name, token=token, workdir=workdir, base={})
        if ground.adopts:
            agent.children.adopt_orphans()
        gc.freeze()  # a collection would touch, and so copy, what we share with the spawner
        agent.run()
    except BaseException:  # noqa: BLE001 - last stop before the child would run the spawner's loop
        traceback.print_exc(file=sys.stderr)
    os._exit(1)
