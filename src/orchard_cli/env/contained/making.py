"""What one contained sandbox is made from, and what a runtime gives back for it."""

import socket
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from ...errors import SandboxError
from ..sandbox import Limits
from .held import Held

INSIDE, DOOR = "/run/orchard", "/run/orchard-door"  # where the agent is shown, and where it may bind its socket


@dataclass(frozen=True)
class Mount:
    """A host path at `target`: with `writable`, copy-on-write, so that the path itself never changes."""

    source: Path
    target: str
    writable: bool = False


@dataclass(frozen=True)
class Making:
    name: str
    folder: Path  # of the host, for this sandbox alone
    root: Path  # a directory, seen copy-on-write
    mounts: Sequence[Mount]
    workdir: str
    limits: Limits
    argv: Sequence[str]  # the agent; the runtime adds how it is reached

    def again(self, name: str, folder: Path) -> "Making":
        """The same for another sandbox."""
        argv = [name if word == self.name else word for word in self.argv]
        return replace(self, name=name, folder=folder, argv=argv)

    def bounds(self, held: Collection[str] = ()) -> list[str]:
        """For its agent: the limits that it is to watch over itself, as no cgroup has `held` them."""
        own = {"memory": self.limits.memory_mb << 20, "pids": self.limits.pids}
        return [word for name, bound in own.items() if name not in held for word in (f"--{name}", str(bound))]


WATCHED = "watched every 0.1 s from inside"


class Runtime(Protocol):
    """What isolates."""

    name: str
    freezes: bool  # whether `freeze` can be asked for

    def start(self, making: Making, frozen: Path | None = None) -> Held:
        """Its agent waits to be greeted, or goes on from `frozen`. Raises `SandboxError`; nothing is left then."""
        ...

    def freeze(self, making: Making, into: Path) -> None:
        """Put it on disk with all that runs in it, and end it; nobody may be connected. Raises `SandboxError`."""
        ...

    def told(self, name: str) -> dict[str, Any]:
        """What it takes to have that sandbox `again`, as JSON may hold it."""
        ...

    def again(self, making: Making, passage: socket.socket, told: Mapping[str, Any]) -> Held:
        """A sandbox that a driver before us started, whether it still lives or not."""
        ...

    def wipe(self, name: str) -> None:
        """What a driver before us may have left half made."""
        ...

    def facts(self) -> dict[str, str]:
        """How each limit is held, in words."""
        ...

    def close(self) -> None: ...


class Make(Protocol):
    """Of a runtime."""

    name: str

    def __call__(self, base: Path) -> Runtime: ...


def failed(message: str) -> SandboxError:
    return SandboxError(message, code="infra.create_failed", effect="none", retry="fresh")


def bad_spec(message: str, hint: str = "") -> SandboxError:
    return SandboxError(message, code="client.bad_spec", attributable="client", effect="none", retry="never", hint=hint)
