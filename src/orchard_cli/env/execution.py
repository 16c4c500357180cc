"""A command that runs: what it says while it does, and how it ended."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

Reason = Literal[
    "exited", "signaled", "timeout", "no_output_timeout", "oom", "pid_limit", "disk_quota", "cancelled", "agent_lost"
]


@dataclass(frozen=True)
class ExecResult:
    """How one command ended. `stdout` and `stderr` keep head and tail when they exceed the cap."""

    exit_code: int | None  # None unless reason is `exited`
    reason: Reason
    stdout: bytes
    stderr: bytes
    signal: int | None = None
    wall_s: float = 0.0
    stdout_bytes: int = 0  # seen, also what was cut
    stderr_bytes: int = 0
    left_running: tuple[int, ...] = ()  # pids inside the sandbox that the command left behind

    @property
    def ok(self) -> bool:
        return self.exit_code == 0

    @property
    def truncated_bytes(self) -> int:
        return self.stdout_bytes + self.stderr_bytes - len(self.stdout) - len(self.stderr)


@dataclass(frozen=True)
class Event:
    """One thing that happened to a command; `seq` counts from 1 and is where reading can go on.

    `out` and `err` carry `data`, which begins at byte `offset` of its stream; `gap` says that events from
    `more["from"]` to `more["to"]` are not kept any longer; `exit` carries the whole record.
    """

    seq: int
    type: Literal["started", "out", "err", "gap", "exit"]
    t: float = 0.0  # seconds since the command began
    data: bytes = b""
    offset: int = 0
    more: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Terminal:
    """The size of the terminal that a command gets."""

    rows: int = 24
    cols: int = 80


class Execution(Protocol):
    """Methods raise `SandboxError` for infrastructure faults and bad arguments alike. Any thread may use it."""

    id: str
    key: str  # starting the same command under it again gives this execution, never a second one

    def events(self, after: int = 0) -> Iterator[Event]:
        """Each event after number `after`, as it comes, up to `exit`; a lost connection is resumed."""
        ...

    def write(self, data: bytes) -> None:
        """To the standard input, if it is open; waits when the command does not read."""
        ...

    def close_stdin(self) -> None: ...

    def signal(self, number: int) -> None:
        """To everything that the command started."""
        ...

    def resize(self, rows: int, cols: int) -> None: ...

    def spooled(self, stream: Literal["out", "err"] = "out") -> Iterator[bytes]:
        """All that it has said so far, in pieces, up to the `spool_bytes` it was started with.

        Raises `SandboxError(code="client.no_such_file")` if it was started without.
        """
        ...

    def cancel(self) -> None:
        """TERM, a grace, KILL, for everything that the command started; the reason is then `cancelled`."""
        ...

    def wait(self, timeout_s: float | None = None) -> ExecResult:
        """The result; may be asked for again. Raises `SandboxError(code="client.still_running")` after `timeout_s`.

        Where the sandbox died with its agent the reason is `agent_lost`, and what the command did is not known.
        """
        ...
