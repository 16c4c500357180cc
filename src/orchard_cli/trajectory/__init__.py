"""The trajectory record: its types, its store, and what can be derived from it."""

from .types import (
    SCHEMA,
    Executed,
    Ledger,
    Message,
    Origin,
    Run,
    Step,
    ToolCall,
    Trajectory,
    Usage,
)

__all__ = [
    "SCHEMA",
    "Executed",
    "Ledger",
    "Message",
    "Origin",
    "Run",
    "Step",
    "ToolCall",
    "Trajectory",
    "Usage",
]
