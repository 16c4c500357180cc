"""Create, use and delete, again and again: nothing may grow. What is there is counted at the start and at the end."""

import gc
import itertools
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from ...errors import OrchardError
from ..local.local import LocalEnv
from ..sandbox import Spec
from .times import Note, family, sizes

WARM = 100  # cycles before the first count: caches, pools
TELL_S = 60.0
MEMORY_MB, MEMORY_SHARE = 1.0, 0.01  # what memory may grow by: whichever is more
ROOM = {"our blocks": 500}  # of Python's memory, however it lies in pages: caches that fill up
Count = dict[str, float]


@dataclass(frozen=True)
class Growth:
    cycles: int
    failed: int
    minutes: float
    before: Count
    after: Count
    stopped: bool  # by whoever watched, before its end

    @property
    def grown(self) -> list[str]:
        """What is more than it was, beyond what a page of memory here and there explains."""
        names = []
        for name, start in self.before.items():
            room = max(MEMORY_MB, start * MEMORY_SHARE) if name.endswith("MB") else ROOM.get(name, 0)
            names += [name] if self.after[name] > start + room else []
        return names


def growth(cycles: int, minutes: float, note: Note, *, warm: int = WARM) -> Growth:
    """`cycles` times, or for so many minutes; 0 is no bound, one of them must be. Ctrl-C ends it with what was done."""
    # In a thread of its own, so that an interrupt never leaves half a cycle.
    with LocalEnv() as env, ThreadPoolExecutor(1) as worker:
        for _ in range(warm):
            worker.submit(_cycle, env).result()
        note(f"{warm} cycles to warm up")  # telling loads what it needs, too
        before, began, done, failed, told = _count(env), time.monotonic(), 0, 0, time.monotonic()
        stopped = False
        try:
            for done in itertools.count():  # noqa: B007 - the number of cycles that are done
                past = time.monotonic() - began
                if (cycles and done >= cycles) or (minutes and past >= 60 * minutes):
                    break
                failed += not worker.submit(_cycle, env).result()
                if time.monotonic() - told > TELL_S:
                    told = time.monotonic()
                    note(f"{done + 1} cycles in {past / 60:.0f} min: {_text(_count(env))}")
        except KeyboardInterrupt:
            stopped = True
        worker.submit(int).result()  # the cycle that was under way is over
        after = _settled(lambda: _count(env), before)
        return Growth(done, failed, (time.monotonic() - began) / 60, before, after, stopped)


def _cycle(env: LocalEnv) -> bool:
    try:
        with env.open(Spec()) as box:
            box.write("a", b"x" * 10_000)
            return box.exec("sleep 60 & echo hi; cat a | wc -c").stdout == b"hi\n10000\n"
    except (OrchardError, OSError):
        return False


def _count(env: LocalEnv) -> Count:
    us, spawner = os.getpid(), env.spawner_pid
    groups = [path for path in Path("/sys/fs/cgroup").glob(f"*/**/{env.base.name}/*/")]
    gc.collect()
    return {
        "our blocks": sys.getallocatedblocks(),
        "our memory, MB": sizes(us)["rss"],
        "spawner's memory, MB": sizes(spawner)["rss"],
        "our descriptors": _entries(f"/proc/{us}/fd"),
        "spawner's descriptors": _entries(f"/proc/{spawner}/fd"),
        "mounts": len(Path(f"/proc/{spawner}/mountinfo").read_text().splitlines()),
        "our mounts": len(Path("/proc/self/mountinfo").read_text().splitlines()),
        "cgroups": len(groups),
        "processes": len(family([spawner])),
        "threads": _entries(f"/proc/{us}/task"),
        "files": _entries(env.base),
    }


def _entries(folder: Path | str) -> int:
    return sum(1 for _ in Path(folder).iterdir())


def _settled(count: Callable[[], Count], wanted: Count, within_s: float = 5.0) -> Count:
    """The last count; some things end a moment after they were told to."""
    until = time.monotonic() + within_s
    while (found := count()) and any(found[key] > wanted[key] for key in wanted if not key.endswith("MB")):
        if time.monotonic() > until:
            break
        time.sleep(0.1)
    return found


def _text(count: Count) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in count.items())
