"""The trajectory record: its types, its store, and what can be derived from it."""

from .blobs import Blobs
from .reading import Key, find, keys, read
from .scan import Problem
from .store import Store, Tail
from .types import (
    SCHEMA,
    Executed,
    Ledger,
    Message,
    Origin,
    Run,
    Shown,
    Step,
    ToolCall,
    Trajectory,
    Usage,
)

__all__ = [
    "SCHEMA",
    "Blobs",
    "Executed",
    "Key",
    "Ledger",
    "Message",
    "Origin",
    "Problem",
    "Run",
    "Shown",
    "Step",
    "Store",
    "Tail",
    "ToolCall",
    "Trajectory",
    "Usage",
    "find",
    "keys",
    "read",
]
