"""Forks of a large workspace: one that came with the sandbox, and one that was written in it."""

import math
import tempfile
from pathlib import Path

from ..local.local import LocalEnv
from ..sandbox import Limits, Sandbox, Spec
from .times import Figures, Note, figures, once

FILE_MIB = 16


def forks(mib: int, repeat: int, note: Note) -> dict[str, Figures]:
    """Milliseconds until a fork of `mib` MiB is ready and shows the last file."""
    room = Limits(memory_mb=4 * mib + 1024, disk_mb=2 * mib + 256)
    found = {}
    with tempfile.TemporaryDirectory() as folder, LocalEnv(limits=room) as env:
        note(f"a workspace of {mib} MiB …")
        for number in range(count := max(1, mib // FILE_MIB)):
            Path(folder, f"f{number}").write_bytes(bytes([number % 255 + 1]) * (FILE_MIB << 20))
        last = f"f{count - 1}"
        with env.open(Spec(tree=Path(folder))) as box:
            found[f"fork, {mib} MiB given"] = _forked(box, last, repeat)
        with env.open(Spec()) as box:
            box.exec(f"for n in $(seq 0 {count - 1}); do head -c {FILE_MIB}M /dev/zero | tr '\\0' x >f$n; done")
            found[f"fork, {mib} MiB written"] = _forked(box, last, repeat)
    return found


def _forked(box: Sandbox, last: str, repeat: int) -> Figures:
    times: list[float] = []
    for _ in range(repeat):
        made: list[Sandbox] = []
        times.append(once(lambda made=made: made.append(box.fork())))  # type: ignore[misc]
        for fork in made:
            with fork:
                if not fork.exec(["/usr/bin/test", "-s", last]).ok:
                    times[-1] = math.inf
    return figures(times)
