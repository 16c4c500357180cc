"""Injected faults: which call of which tool goes wrong, and how. The same for the same world, whatever else happens."""

import hashlib
from fnmatch import fnmatchcase
from typing import Any

from .answer import Answer

KINDS = ("rate_limited", "unavailable", "timeout", "lost_answer", "stale")
NEVER = ("done", "user_ask", "clock_now")


class Plan:
    """Counts calls by tool. A fault by rate never hits two calls of a tool in a row: trying again helps."""

    def __init__(self, faults: list[dict[str, Any]], seed: int):
        self.faults, self.seed = faults, seed
        self.calls: dict[str, int] = {}

    def next(self, tool: str) -> dict[str, Any] | None:
        """The fault of this call of `tool`, if it has one."""
        number = self.calls[tool] = self.calls.get(tool, 0) + 1
        if tool in NEVER:
            return None
        fitting = ((at, fault) for at, fault in enumerate(self.faults) if fnmatchcase(tool, fault["tool"]))
        return next((fault for at, fault in fitting if self._hits(at, fault, tool, number)), None)

    def _hits(self, at: int, fault: dict[str, Any], tool: str, number: int) -> bool:
        if number in fault["calls"]:
            return True
        hits = False
        for n in range(1, number + 1) if fault["rate"] else ():
            hits = not hits and self._chance(at, tool, n) < fault["rate"]
        return hits

    def _chance(self, *parts: object) -> float:
        digest = hashlib.sha256(repr((self.seed, *parts)).encode()).digest()
        return int.from_bytes(digest[:4]) / 2**32


def answer(fault: dict[str, Any]) -> Answer:
    """What the agent sees instead of a result."""
    kind = fault["kind"]
    if kind == "rate_limited":
        return Answer(kind, f"rate_limited: too many requests, try again in {fault['retry_after']} s")
    if kind == "unavailable":
        return Answer(kind, "unavailable: the service is down for a moment, try again")
    return Answer("timeout", "timeout: no answer came in time")
