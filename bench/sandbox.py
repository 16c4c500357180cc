"""Times of the local sandbox beside bare subprocess and bare bubblewrap, in the same run.

    python bench/sandbox.py [--json] [--repeat 100]

Every figure is wall-clock milliseconds in this process; a failure counts as +∞. The list of 64 ends with an audit:
processes, mounts, descriptors and cgroups of the spawner before and after.
"""

import argparse
import itertools
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

from orchard_cli.env.bench.times import Figures, machine, timed
from orchard_cli.env.local.local import LocalEnv
from orchard_cli.env.sandbox import Sandbox, Spec
from orchard_cli.env.service.bench import BWRAP, ECHO


def bare(command: tuple[str, ...]) -> Callable[[], object]:
    return lambda: subprocess.run(command, check=True, stdout=subprocess.PIPE)


def one_sandbox(env: LocalEnv, spec: Spec, repeat: int) -> dict[str, Figures]:
    figures = {}
    made: list[Sandbox] = []
    figures["create"] = timed(lambda: made.append(env.open(spec)), repeat // 2)
    figures["close"] = timed(lambda: made.pop().close(), repeat // 2)
    with env.open(spec) as box:
        figures["exec"] = timed(lambda: box.exec(ECHO), repeat)
        figures["exec argv true"] = timed(lambda: box.exec(["/usr/bin/true"]), repeat)
        key = itertools.count()
        figures["start, follow to exit"] = timed(lambda: list(followed(box, next(key))), repeat)
        figures["read"] = timed(lambda: box.read("f0.py"), repeat)
        figures["write"] = timed(lambda: box.write("new.py", b"x = 1\n"), repeat)
        figures["diff (2 files)"] = timed(box.diff, repeat // 4)
        figures["fork"] = timed(lambda: made.append(box.fork()), repeat // 4)
    for fork in made:
        fork.close()
    return figures


def followed(box: Sandbox, number: int) -> Iterator[object]:
    yield from cast(Sandbox, box).start(ECHO, key=f"bench-{number}").events()


def busy(env: LocalEnv, spec: Spec, count: int = 800, threads: int = 16) -> dict[str, float]:
    """Commands a second from sixteen threads, in one sandbox."""
    with env.open(spec) as box, ThreadPoolExecutor(threads) as pool:
        began = time.perf_counter()
        list(pool.map(lambda _: box.exec(ECHO), range(count)))
        return {"commands_s": count / (time.perf_counter() - began)}


def traces(env: LocalEnv) -> list[int]:
    root = Path(f"/proc/{env.spawner_pid}")
    children = (root / f"task/{env.spawner_pid}/children").read_text().split()
    cgroups = [path for path in Path("/sys/fs/cgroup").glob(f"*/**/{env.base.name}/*/")]
    mounts = (root / "mountinfo").read_text().splitlines()
    return [len(children), len(mounts), len(list((root / "fd").iterdir())), len(cgroups)]


def many(env: LocalEnv, spec: Spec, count: int = 64, threads: int = 16) -> dict[str, object]:
    """All stand at once; then a command in each, then all are closed."""
    before, began = traces(env), time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        boxes = list(pool.map(lambda _: env.open(spec), range(count)))
        created = time.perf_counter()
        right = sum(pool.map(lambda box: box.exec(ECHO).stdout == b"hi\n", boxes))
        executed = time.perf_counter()
        list(pool.map(lambda box: box.close(), boxes))
    closed = time.perf_counter()
    return {
        "create_s": created - began,
        "exec_s": executed - created,
        "close_s": closed - executed,
        "right": right,
        "leaked": [now - then for now, then in zip(traces(env), before, strict=True)],
    }


def measure(repeat: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder, LocalEnv() as env:
        for number in range(20):
            Path(folder, f"f{number}.py").write_text(f"x = {number}\n" * 50)
        spec = Spec(tree=Path(folder))
        figures = {"subprocess": timed(bare(("bash", "-c", ECHO)), repeat), "bwrap": timed(bare(BWRAP), repeat)}
        figures |= one_sandbox(env, spec, repeat)
        return {
            "machine": machine(),
            "env": env.describe(),
            "ms": figures,
            "64 at once": many(env, spec),
            "busy": busy(env, spec),
        }


def show(result: dict[str, object]) -> None:
    figures: dict[str, Figures] = result["ms"]  # type: ignore[assignment]
    print("  ".join(f"{key}={value}" for key, value in result["machine"].items()))  # type: ignore[attr-defined]
    print(f"{'ms':18}{'min':>8}{'p50':>8}{'p99':>8}{'p50/subprocess':>16}{'p50/bwrap':>11}")
    for name, row in figures.items():
        ratios = [row["p50"] / figures[base]["p50"] for base in ("subprocess", "bwrap")]
        print(f"{name:18}{row['min']:8.2f}{row['p50']:8.2f}{row['p99']:8.2f}{ratios[0]:16.2f}{ratios[1]:11.2f}")
    crowd: dict[str, object] = result["64 at once"]  # type: ignore[assignment]
    times = "  ".join(f"{key}={crowd[key]:.2f}" for key in ("create_s", "exec_s", "close_s"))
    print(f"64 at once: {times}  right={crowd['right']}/64")
    print("16 at once: " + "  ".join(f"{key}={value:.1f}" for key, value in result["busy"].items()))  # type: ignore[attr-defined]
    print(f"left over (processes, mounts, descriptors, cgroups): {crowd['leaked']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeat", type=int, default=100)
    options = parser.parse_args()
    if shutil.which("bwrap") is None:
        sys.exit("error: bubblewrap is not installed\nhint: apt-get install bubblewrap")
    result = measure(options.repeat)
    print(json.dumps(result, indent=1)) if options.json else show(result)


if __name__ == "__main__":
    main()
