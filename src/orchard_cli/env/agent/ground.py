"""Where commands run, and what can be known of them there."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable, Collection
from contextlib import suppress

from .kinds import Any
from .members import VARIABLE, Members, by_variable, text


class Ground:
    """Where commands run: here, beside the agent. Other grounds have the same face.

    Commands are found again by a variable of their environment. A hostile one can shed it: where the workload has our
    user id and our process ids, it can also end the agent, and that is reported as such by whoever misses the agent.
    """

    FILES = (
        ("/sys/fs/cgroup/memory.events:oom_kill", "/sys/fs/cgroup/memory/memory.oom_control:oom_kill"),
        ("/sys/fs/cgroup/pids.events:max", "/sys/fs/cgroup/pids/pids.events:max"),
    )

    def __init__(self, memory: int = 0, pids: int = 0) -> None:
        """Bytes of memory and processes that we watch over ourselves; 0: whoever made the place does."""
        self._memory, self._pids = memory, pids
        self._marks = itertools.count(int.from_bytes(os.urandom(7), "big"))
        self.adopts = False  # orphans become our children
        self.beat: Callable[[bool], None] | None = None  # see `Passage`
        self.members = Members(os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), by_variable)

    def mark(self, env: dict[str, str]) -> int:
        """A new mark; `env` may get what makes it stick."""
        number = next(self._marks)
        env[VARIABLE] = str(number)
        return number

    def spawn(self, path: str, argv: list[Any], env: dict[str, str], actions: list[Any]) -> int:
        """Start; returns the pid. Raises `OSError` if the program cannot be run."""
        if self.beat is None:
            return os.posix_spawn(path, argv, env, file_actions=actions, setsid=True)
        self.beat(True)
        try:
            pid = os.posix_spawn(path, argv, env, file_actions=actions, setsid=True)
        finally:
            self.beat(False)
        with suppress(OSError):  # when memory ends, a command goes before the agent does
            fd = os.open(f"{pid}/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC, dir_fd=self.members.proc)
            os.write(fd, b"500")
            os.close(fd)
        return pid

    def counters(self) -> tuple[int, int]:
        """(kills for want of memory, refused forks) so far, where this container's cgroup tells."""
        return self._counter(self.FILES[0]), self._counter(self.FILES[1])

    def _counter(self, places: tuple[str, ...]) -> int:
        for place in places:
            name, _, key = place.partition(":")
            with suppress(OSError, ValueError):
                for line in text(name, None).splitlines():
                    if line.startswith(key + " "):
                        return int(line.split()[1])
        return 0

    def gone(self) -> bool:
        """The place itself is ending, and with it all that runs there."""
        return False

    def full(self) -> bool:
        """No room is left for files."""
        return False

    def overstepped(self) -> str:
        """Which bound that we watch ourselves is broken, as a reason; empty if none."""
        if self._pids and len(self.members.everyone()) > self._pids:
            return "pid_limit"
        return "oom" if self._memory and self.members.resident() > self._memory else ""

    def nobody_left(self, known: Collection[int], leaders: int) -> bool:
        """Certain, without looking at each process, that no ended command has left any; `known` are our children."""
        if not self.adopts:
            return False
        try:
            found = text(f"/proc/self/task/{os.getpid()}/children", None).split()
        except OSError:  # a kernel without such lists
            return False
        return all(int(pid) in known for pid in found)

    def freeze(self, frozen: bool) -> None:
        """Stop everything inside for a moment, where the kernel can."""

    def kill_everyone(self) -> None:
        """The last resort against what multiplies faster than it can be named."""
        if os.getpid() == 1:
            with suppress(OSError):
                os.kill(-1, signal.SIGKILL)

    def scratch(self) -> int:
        """A new file without a name."""
        with suppress(OSError):
            return os.open("/tmp", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
        name = f"/tmp/.{os.urandom(8).hex()}.orchard"  # a file system without nameless files
        fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.unlink(name)
        return fd

    def drop(self) -> None:
        """In a child of the agent: give up what the workload does not have."""
