"""How a command ended, in words that say whose doing it was."""

from __future__ import annotations

import os

from .ground import Ground
from .kinds import Any
from .problem import Json


class End:
    """`killed` is the reason for which we ended it, or empty; `usage` is what the kernel says it used."""

    __slots__ = ("killed", "status", "usage", "wall_s")

    def __init__(self, status: int, killed: str, wall_s: float, usage: Any):
        self.status, self.killed, self.wall_s, self.usage = status, killed, wall_s, usage


def described(end: End, ground: Ground, before: tuple[int, int], seen: list[int], left: tuple[int, ...]) -> Json:
    code = os.waitstatus_to_exitcode(end.status)
    reason = end.killed or kind_of(code, ground, before)
    used = end.usage
    return {
        "exit_code": code if reason == "exited" else None,
        "signal": -code if reason == "signaled" else None,
        "reason": reason,
        "wall_s": round(end.wall_s, 6),
        "cpu_s": round(used.ru_utime + used.ru_stime, 6) if used else 0.0,
        "seen": seen,
        "left_running": list(left),
    }


def kind_of(code: int, ground: Ground, before: tuple[int, int]) -> str:
    """Why a command ended: a limit counts only if the command itself failed."""
    if code == 0:
        return "exited"
    oom, refused = ground.counters()
    if code in (-9, 137) and oom > before[0]:
        return "oom"
    if refused > before[1] or ground.overstepped() == "pid_limit":
        return "pid_limit"
    if ground.full():
        return "disk_quota"
    return "signaled" if code < 0 else "exited"
