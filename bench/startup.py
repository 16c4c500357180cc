"""How long `orchard --help` takes as a whole process, beside a bare interpreter in the same run."""

import statistics
import subprocess
import sys
import time

from machine import describe

RUNS = 15


def seconds(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def main() -> None:
    print(describe())
    ours = [sys.executable, "-m", "orchard_cli", "--help"]
    bare = [sys.executable, "-c", "pass"]
    pairs = [(seconds(ours), seconds(bare)) for _ in range(RUNS)]
    help_s, bare_s = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(a / b for a, b in pairs)
    print(f"orchard --help {help_s:.3f} s, bare python {bare_s:.3f} s, ratio {ratio:.1f} (medians of {RUNS} pairs)")


if __name__ == "__main__":
    main()
