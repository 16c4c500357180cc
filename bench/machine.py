"""What every bench script prints first: the machine that the figures were taken on."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version


def describe() -> str:
    """Cores, memory, kernel, Python and torch, and how busy the machine was."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    try:
        torch = version("torch")
    except PackageNotFoundError:
        torch = "none"
    cores = len(os.sched_getaffinity(0))
    load = ", ".join(f"{x:.1f}" for x in os.getloadavg())
    return (
        f"{cores} cores, {memory:.0f} GiB, {platform.system()} {platform.release()}, Python "
        f"{platform.python_version()}, torch {torch}; load {load}"
    )


if __name__ == "__main__":
    print(describe())
