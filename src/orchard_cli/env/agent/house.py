"""What an execution needs of whoever keeps it."""

from __future__ import annotations

from .children import Children
from .ground import Ground
from .kinds import Any, Protocol
from .loop import Loop
from .output import Sink


class House(Protocol):
    """What an execution needs of its agent."""

    loop: Loop
    ground: Ground
    children: Children
    sink: Sink
    workdir: str

    def spool(self) -> int: ...

    def finished(self, execution: Any) -> None: ...
