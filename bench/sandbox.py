"""Times of the local sandbox beside bare subprocess and bare bubblewrap, in the same run.

    python bench/sandbox.py [--json] [--repeat 100]

Every figure is wall-clock milliseconds in this process; failures stop the run. The list of 64 ends with an audit:
processes, mounts, descriptors and cgroups of the spawner before and after.
"""

import argparse
import itertools
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

from orchard_cli.env.agent.pack import pack
from orchard_cli.env.local.local import LocalEnv
from orchard_cli.env.sandbox import Sandbox, Spec

ECHO = "echo hi"
BWRAP = (
    *("bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", "/usr", "/usr"),
    *("--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64"),
    *("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "bash", "-c", ECHO),
)
Figures = dict[str, float]


def machine() -> dict[str, object]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(memory, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "bwrap": subprocess.run(["bwrap", "--version"], capture_output=True, text=True).stdout.strip(),
        "load_1min": os.getloadavg()[0],
    }


def timed(call: Callable[[], object], repeat: int) -> Figures:
    call()
    times = []
    for _ in range(repeat):
        began = time.perf_counter()
        call()
        times.append((time.perf_counter() - began) * 1e3)
    times.sort()
    return {
        "min": times[0],
        "p50": statistics.median(times),
        "p99": times[min(len(times) - 1, int(len(times) * 0.99))],
        "n": repeat,
    }


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
    """Commands a second from sixteen threads, in one sandbox; the size of its agent; an agent started in an image."""
    with env.open(spec) as box, ThreadPoolExecutor(threads) as pool:
        began = time.perf_counter()
        list(pool.map(lambda _: box.exec(ECHO), range(count)))
        rate = count / (time.perf_counter() - began)
        agent = Path(f"/proc/{env.spawner_pid}/task/{env.spawner_pid}/children").read_text().split()[-1]
        text = Path(f"/proc/{agent}/status").read_text() + Path(f"/proc/{agent}/smaps_rollup").read_text()
        sizes = {line.split()[0]: int(line.split()[1]) / 1024 for line in text.splitlines() if line.endswith("kB")}
    return {"commands_s": rate, "agent_rss_mib": sizes["VmRSS:"], "agent_own_mib": sizes["Private_Dirty:"]} | packed()


def packed(repeat: int = 15) -> dict[str, float]:
    """An agent from one file, as in an image: milliseconds from start to ready, and its size."""
    times, size = [], 0.0
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "agent.pyz")
        file.write_bytes(pack())
        for number in range(repeat):
            command = ["/usr/bin/python3", "-I", "-S", "-E", str(file), "--socket", f"{folder}/{number}"]
            began = time.perf_counter()
            with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
                assert process.stdin and process.stdout
                process.stdin.write(b"token\n")
                process.stdin.flush()
                process.stdout.readline()
                times.append((time.perf_counter() - began) * 1e3)
                size = int(Path(f"/proc/{process.pid}/status").read_text().split("VmRSS:")[1].split()[0]) / 1024
                process.kill()
    return {"packed_ready_ms": statistics.median(times), "packed_rss_mib": size}


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
