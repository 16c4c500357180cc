"""A request that cannot be met, on its way to whoever asked."""

from __future__ import annotations

from .kinds import Any

Json = dict[str, Any]


class Problem(Exception):
    """A request that cannot be met. Nothing has been done unless `effect` says otherwise."""

    def __init__(self, status: int, code: str, message: str, attributable: str = "client", effect: str = "none"):
        super().__init__(message)
        self.status = status
        self.record = {"code": code, "message": message, "attributable": attributable, "effect": effect}
