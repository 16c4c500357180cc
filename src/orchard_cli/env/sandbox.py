"""The sandbox protocol: what every back end offers, and the words for how a command ended.

Implemented by `env/local` (and later container, k8s, remote). Commands run at most once; an infrastructure
failure raises `SandboxError`, whatever the command itself did is an `ExecResult`.
"""

import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from .execution import ExecResult as ExecResult
from .execution import Execution, Terminal
from .execution import Reason as Reason
from .network.endpoint import ModelEndpoint


@dataclass(frozen=True)
class Bind:
    """A host path shown read-only inside the sandbox."""

    source: Path
    target: str


@dataclass(frozen=True)
class Limits:
    """Resource limits of one sandbox. 0 means no limit of our own."""

    memory_mb: int = 1024
    pids: int = 256
    cpus: float = 0.0
    disk_mb: int = 1024


@dataclass(frozen=True)
class Spec:
    """What a sandbox is made from.

    `image` names the read-only root (`host`: this machine's system directories and nothing private).
    `tree` is a host directory that appears at `workdir`, copy-on-write: the directory itself never changes
    and may be shared by any number of sandboxes.
    """

    tree: Path | None = None
    workdir: str = "/workspace"
    image: str = "host"
    binds: tuple[Bind, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = Limits()
    # empty: as the environment says. none: nothing. allowlist: what `allow` names, through a proxy. open: any public
    # address, through the proxy. host: this machine's own network, without any bound.
    network: Literal["", "none", "allowlist", "open", "host"] = ""
    allow: tuple[str, ...] = ()  # rules, see `network/rules.py`
    model: ModelEndpoint | None = None  # a loopback URL to one model, $ORCHARD_MODEL_URL; whatever `network` says


class Sandbox(Protocol):
    """One isolated place. Methods raise `SandboxError` for infrastructure faults and bad arguments alike."""

    id: str
    workdir: str

    def exec(
        self,
        command: str | Sequence[str],  # a bash script, or argv
        *,
        timeout_s: float = 60.0,
        cwd: str | None = None,  # default workdir; a missing directory is an error
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        max_bytes: int = 1_048_576,  # kept per stream, half head and half tail
        merge: bool = False,  # stderr into stdout, in order
        login: bool = False,  # with what profile scripts set; they run once in a sandbox
    ) -> ExecResult:
        """Run one command in a session of its own; return when its leader ends (never waits for EOF)."""
        ...

    def start(
        self,
        command: str | Sequence[str],
        *,
        key: str = "",  # the same key again: the same execution, never a second one
        timeout_s: float = 60.0,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | None = b"",  # None: open, see `Execution.write`
        terminal: Terminal | None = None,
        max_bytes: int = 1_048_576,
        merge: bool = False,
        login: bool = False,
        no_output_timeout_s: float = 0.0,  # ended after so long a silence; 0: never
        kill_grace_s: float = 0.5,  # between TERM and KILL
        spool_bytes: int = 0,  # kept of all that it says, per stream, on the sandbox's disk: see `Execution.spooled`
        paced: bool = False,  # it waits for whoever follows it, so that no output is lost; else the oldest is
    ) -> Execution:
        """Start one command and return, to follow it and to talk to it; `exec` is this and a wait for its end."""
        ...

    def executions(self) -> tuple[Execution, ...]:
        """All commands that are known there, the oldest first, whoever started them."""
        ...

    def read(self, path: str, *, max_bytes: int = 16_777_216) -> bytes: ...

    def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None: ...

    def fetch(self, path: str) -> Iterator[bytes]:
        """A file of any size, in pieces."""
        ...

    def store(self, path: str, pieces: Iterable[bytes], *, mode: int = 0o644) -> None:
        """As `write`, for a file of any size: whole or not at all."""
        ...

    def list(self, path: str = ".") -> tuple[str, ...]:
        """Names below a directory, sorted; directories end in `/`."""
        ...

    def pack(self, path: str = ".") -> Iterator[bytes]:
        """Everything below a directory but what vanishes meanwhile, as pieces of a tar.

        Sockets, what a command in the sandbox could not read either, and what lies deeper than a path is long, are left
        out, and files that are cut meanwhile end in zeros. A global header says which: `ORCHARD.left_out`, as JSON
        `{"closed": count, "deep": count, "cut": count, "sockets": count, "names": [[why, name], ...]}`.
        """
        ...

    def unpack(self, path: str, tar: Iterable[bytes]) -> None:
        """Into a directory, made if it is not there. Symbolic links may point anywhere; what would be written outside,
        through one of them too, is refused, and nothing is undone then.
        """
        ...

    def diff(self) -> str:
        """All changes under `workdir` since the sandbox was made, as a git-style unified diff (a/ b/)."""
        ...

    def patch(self, diff: str) -> None:
        """Apply a unified diff at `workdir`; raises `SandboxError(code="patch_failed")` and changes nothing."""
        ...

    def connect(self, port: int, *, timeout_s: float = 5.0) -> socket.socket:
        """A blocking TCP connection from outside to a loopback port inside; the caller closes it.

        Raises `SandboxError(code="connect_refused")`, attributable `unknown`, when nothing listens.
        """
        ...

    def fork(self, *, processes: bool = False) -> "Sandbox":
        """A new sandbox whose files are a copy of this one's at this point.

        With `processes`, all that runs goes on in both, and `executions` of the new one has the same commands; open
        connections into this one and out of it end. Only `env.isolation=gvisor` can: elsewhere it raises
        `SandboxError(code="client.unsupported")`.
        """
        ...

    def close(self) -> None:
        """Kill everything inside and remove every trace. Idempotent."""
        ...

    def __enter__(self) -> "Sandbox": ...

    def __exit__(self, *exc: object) -> None: ...


class Env(Protocol):
    """A place that opens sandboxes."""

    def open(self, spec: Spec) -> Sandbox: ...

    def describe(self) -> dict[str, object]:
        """What was proven at start: tier, network, cgroup version, limits in force, weaker fallbacks."""
        ...

    def close(self) -> None: ...
