"""One contained sandbox as its driver holds it: the socket that leads in, and how it is ended."""

import socket
import threading
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path

from ...errors import SandboxError
from ..wire import Dial

STUCK_S = 10.0  # to start one process takes no such time even on a busy machine
DIAL_S = 30.0  # until one of hundreds that wait is let in


class Held:
    """`end` removes every trace of it, once; `why` says, after its agent is gone, what the runtime knows of that.

    `free` ends every process inside but the first: new ones that are stopped before they have become programs hold the
    agent up, and only somebody outside can help.
    """

    def __init__(
        self, control: socket.socket, end: Callable[[], None], why: Callable[[], str], free: Callable[[], None]
    ):
        self._control, self._end, self.why, self._free = control, end, why, free
        self._starting = 0.0  # since when the agent has been starting a process, as far as we have seen
        self._lock, self._turn = threading.Lock(), threading.Lock()
        self._ended, self._away = False, False

    @property
    def passage(self) -> socket.socket:
        """Whoever else has a duplicate of it keeps the sandbox alive when we are gone."""
        return self._control

    def greet(self, token: str, wait_s: float) -> bool:
        """Tell the agent its token; False if it is not there in time."""
        self._control.settimeout(wait_s)
        try:
            self._control.sendall(f"{token}\n".encode())
            ready = self._control.recv(1) == b"!"
        except OSError:
            return False
        self._control.settimeout(None)
        return ready

    @contextmanager
    def shut(self) -> Iterator[Dial]:
        """Whoever wants to get in waits meanwhile, but for the way that this gives."""
        with self._turn:
            with self._lock:
                self._away = True
            try:
                yield partial(self._patiently, nullcontext())
            finally:
                self._away = False

    def renew(self, other: "Held") -> None:
        """It has come back from disk: this is how it is reached now. `other` is not used any more."""
        with self._lock:
            self._control.close()
            self._control, self._starting = other._control, 0.0
            if self._ended:
                self._control.close()

    def dial(self) -> socket.socket:
        """A new connection to the agent. Raises `OSError` when it is gone, `SandboxError` when it takes none."""
        return self._patiently(self._turn)

    def _patiently(self, turn: AbstractContextManager[object]) -> socket.socket:
        """Without a lock while an agent that stands still has no room for more: it must be helped, or ended."""
        until = time.monotonic() + DIAL_S
        while True:
            with suppress(BlockingIOError), turn:
                return self._dial()
            if time.monotonic() > until:
                text = "the agent of the sandbox takes no connection"
                raise SandboxError(text, code="infra.agent_silent", effect="none", retry="fresh")
            time.sleep(0.02)

    def _dial(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                with self._lock:
                    if self._ended:
                        raise ConnectionResetError("the sandbox is closed")
                    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [theirs.fileno()]))
                    self._control.sendmsg([b"."], [rights], socket.MSG_DONTWAIT)
            except OSError:
                ours.close()
                raise
        return ours

    def alive(self) -> bool:
        """Whether the far end is still open, or will be in a moment."""
        with self._lock:
            if self._away:
                return True
            try:
                while not self._ended and (said := self._control.recv(4096, socket.MSG_DONTWAIT)):
                    self._starting = time.monotonic() if said.endswith(b"<") else 0.0
                return False
            except BlockingIOError:
                return True
            except OSError:
                return False

    def look(self, answers: Callable[[], bool]) -> None:
        """To be called now and then: helps an agent that has stood still for long.

        Of thousands of short commands the last word may have found no room on its way: so the agent is asked first.
        """
        if self.alive() and self._starting and time.monotonic() - self._starting > STUCK_S:
            if answers():
                self._starting = 0.0
            else:
                self._free()

    def end(self) -> None:
        """A fork that is under way comes to its end first: it may be about to bring us back."""
        with self._turn:
            with self._lock:
                if self._ended:
                    return
                self._ended = True
                self._control.close()
            self._end()


def line(text: str) -> str:
    """The last line of what a program said."""
    lines = [part.strip() for part in text.splitlines() if part.strip()]
    return lines[-1][-500:] if lines else ""


def tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 4096))
            return line(file.read().decode(errors="replace"))
    except OSError:
        return ""
