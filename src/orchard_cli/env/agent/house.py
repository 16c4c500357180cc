"""What an execution needs of whoever keeps it."""

from __future__ import annotations

from typing import Any, Protocol

from .children import Children
from .ground import Ground
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
