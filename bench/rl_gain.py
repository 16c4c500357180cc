"""What RL adds to SFT in the demo, over several seeds: `orchard swe run seed=N` each, then one paired interval.

A seed changes tasks, teacher, weights and sampling. Tasks of all seeds are pooled; the interval resamples tasks.
Arguments: seeds (default 0 1 2) and settings, such as `harness.max_tokens=64`. Runs that are there are used, so the
script can be stopped and started again.
"""

import subprocess
import sys
from pathlib import Path

import msgspec
from machine import describe

from orchard_cli.eval.metrics import Counts, compare, count
from orchard_cli.trajectory.reading import read

OUT = Path("runs")


def counts(seed: int, policy: str, heat: str) -> list[Counts]:
    file = OUT / "swe" / f"gain-{seed}" / "eval" / "trajectories" / f"{policy}-t{heat}.jsonl.zst"
    return [msgspec.structs.replace(c, task=f"{seed}/{c.task}") for c in count(read(file))]


def main() -> None:
    settings = [word for word in sys.argv[1:] if "=" in word]
    seeds = [int(word) for word in sys.argv[1:] if "=" not in word] or [0, 1, 2]
    print(describe())
    for seed in seeds:
        words = [f"seed={seed}", f"run=gain-{seed}", f"out={OUT}", "eval.attempts=4", *settings]
        subprocess.run(
            [sys.executable, "-m", "orchard_cli", "swe", "run", *words], check=True, stdout=subprocess.DEVNULL
        )
    for heat, name in (("0", "greedy"), ("1", "T = 1")):
        for a, b in (("base", "sft"), ("sft", "rl")):
            first, second = ([c for seed in seeds for c in counts(seed, policy, heat)] for policy in (a, b))
            found = compare((a, first), (b, second), resamples=10_000)
            each = []
            for seed in seeds:
                one = compare((a, counts(seed, a, heat)), (b, counts(seed, b, heat)), resamples=10)
                each.append(f"{100 * (one.value or 0):+.1f}")
            print(
                f"{a} → {b}, {name}: {100 * (found.value or 0):+.1f} points of pass@1 "
                f"[{100 * found.low:+.1f}, {100 * found.high:+.1f}], p {found.p:.2g}; by seed {', '.join(each)}"
            )


if __name__ == "__main__":
    main()
