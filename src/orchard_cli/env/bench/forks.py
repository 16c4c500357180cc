"""Forks of a large workspace: one that came with the sandbox, and one that was written in it."""

import math
import tempfile
from collections import defaultdict
from pathlib import Path

from ..local.local import LocalEnv
from ..sandbox import Limits, Sandbox, Spec
from .times import Figures, Note, figures, once

FILE_MIB = 16


def forks(mib: int, repeat: int, note: Note) -> dict[str, Figures]:
    """Milliseconds until a fork of `mib` MiB is ready and shows the last file, and the way that it was made."""
    room = Limits(memory_mb=4 * mib + 1024, disk_mb=2 * mib + 256)
    times: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder, LocalEnv(limits=room) as env:
        note(f"a workspace of {mib} MiB …")
        for number in range(count := max(1, mib // FILE_MIB)):
            Path(folder, f"f{number}").write_bytes(bytes([number % 255 + 1]) * (FILE_MIB << 20))
        last = f"f{count - 1}"
        with env.open(Spec(tree=Path(folder))) as box:
            for _ in range(repeat):
                way, ms = _forked(box, last)
                times[f"fork, {mib} MiB given ({way})"].append(ms)
        for _ in range(repeat):  # a new one each time: what a fork has sealed is as good as given to the next
            with env.open(Spec()) as box:
                box.exec(f"for n in $(seq 0 {count - 1}); do head -c {FILE_MIB}M /dev/zero | tr '\\0' x >f$n; done")
                way, ms = _forked(box, last)
                times[f"fork, {mib} MiB written ({way})"].append(ms)
    return {name: figures(found) for name, found in times.items()}


def _forked(box: Sandbox, last: str) -> tuple[str, float]:
    """How the fork got its files, and in how many milliseconds; infinite if they are not there."""
    made: list[Sandbox] = []
    ms = once(lambda: made.append(box.fork()))
    way = ""
    for fork in made:
        with fork:
            way = getattr(fork, "way", "")
            if not fork.exec(["/usr/bin/test", "-s", last]).ok:
                ms = math.inf
    return way, ms
