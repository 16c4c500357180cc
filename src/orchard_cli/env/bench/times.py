"""Wall-clock milliseconds of calls, as a distribution in which a failure is +∞ and never dropped."""

import math
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from ...errors import OrchardError

Figures = dict[str, float]
Note = Callable[[str], None]
Row = tuple[str, ...]
Table = tuple[str, Row, list[Row]]
MS = ("ms", "min", "p50", "p95", "p99", "max", "failed", "n")


def machine() -> dict[str, object]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_1min": round(os.getloadavg()[0], 1),
    }


def timed(call: Callable[[], object], repeat: int) -> Figures:
    """Wall-clock milliseconds of at least one call; another one before them warms up and is not counted."""
    once(call)
    return figures([once(call) for _ in range(max(1, repeat))])


def once(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    try:
        call()
    except (OrchardError, OSError, subprocess.SubprocessError):
        return math.inf
    return (time.perf_counter() - began) * 1e3


def figures(times: list[float]) -> Figures:
    times = sorted(times)
    at = {f"p{share}": times[min(len(times) - 1, int(len(times) * share / 100))] for share in (95, 99)}
    middle = {"p50": statistics.median(times)}
    return {"min": times[0], **middle, **at, "max": times[-1], "n": len(times), "failed": times.count(math.inf)}


def row(name: str, found: Figures) -> Row:
    times = [f"{found[key]:.2f}" for key in ("min", "p50", "p95", "p99", "max")]
    return (name, *times, str(int(found["failed"])), str(int(found["n"])))


def sizes(pid: int) -> Figures:
    """Megabytes (10⁶ bytes) that one process holds: with all that it shares, with its share of it, alone."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    kib = {line.split()[0]: int(line.split()[1]) for line in text.splitlines() if line.endswith("kB")}
    names = {"rss": "Rss:", "pss": "Pss:", "own": "Private_Dirty:"}
    return {name: kib[key] * 1024 / 1e6 for name, key in names.items()}


def family(pids: Iterable[int]) -> list[int]:
    """These processes and all below them."""
    found = list(pids)
    for pid in found:
        try:
            tasks = list(Path(f"/proc/{pid}/task").iterdir())
            found += [int(child) for task in tasks for child in (task / "children").read_text().split()]
        except OSError:  # ended meanwhile
            continue
    return found
