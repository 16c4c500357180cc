"""`orchard env bench`: this machine's sandboxes, embedded and over REST, beside raw subprocess and bare bwrap.

Closed loop. A failure counts as +∞ in its distribution: it is never dropped. Server, client and sandboxes share the
cores; the server is a process of its own, as it is in use.
"""

import math
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from ...errors import ConfigError, RunError
from ..bench.peers import peers
from ..bench.times import MS, Figures, Note, Table, figures, machine, once, row, timed
from ..contained.choose import any_tier
from ..remote.env import RemoteEnv
from ..sandbox import Env, Sandbox, Spec

ECHO = "echo hi"
AT_ONCE = 16
BWRAP = (
    *("bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", "/usr", "/usr"),
    *("--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64"),
    *("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "bash", "-c", ECHO),
)


def measure(
    isolation: str = "auto", *, repeat: int, sandboxes: int, note: Note, peers_in: Path | None = None
) -> dict[str, Any]:
    """Milliseconds by what was done; with `sandboxes`, also so many alive at once, over REST."""
    if repeat < 0 or sandboxes < 0:
        raise ConfigError("--repeat and --sandboxes are 0 or more", hint="--repeat 200")
    result: dict[str, Any] = {"machine": machine(), "ms": {}, "per_s": {}}
    if not repeat:
        return result
    ms = result["ms"]
    ms["subprocess: exec"] = timed(lambda: _run(("bash", "-c", ECHO)), repeat)
    crowded = f"subprocess: exec, {AT_ONCE} at once"
    result["per_s"][crowded], ms[crowded] = crowd([lambda: _run(("bash", "-c", ECHO))] * AT_ONCE, repeat * 4)
    ms["bare bwrap: exec"] = timed(lambda: _run(BWRAP), repeat)
    if peers_in:
        ms.update(peers(peers_in, repeat, note))
    else:
        note("without SWE-ReX and mini-swe-agent: --peers FOLDER measures them, too")
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        tree.mkdir()
        (tree / "a.txt").write_text("one\n")
        note("embedded …")
        with any_tier(isolation) as env:
            result["isolation"] = env.describe()["isolation"]
            _measure(env, Spec(tree=tree), "embedded", repeat, result)
        note("over REST …")
        with served(Path(folder), isolation) as remote:
            _measure(remote, Spec(tree=tree), "REST", repeat, result)
            if sandboxes:
                note(f"{sandboxes} sandboxes …")
                result["many"] = many(remote, Spec(tree=tree), sandboxes)
    return result


@contextmanager
def served(folder: Path, isolation: str = "auto") -> Iterator[RemoteEnv]:
    """A client of a server that runs as `orchard env serve` does."""
    with served_by(folder, isolation) as (url, key), RemoteEnv(url, key) as env:
        yield env


@contextmanager
def served_by(folder: Path, isolation: str = "auto") -> Iterator[tuple[str, str]]:
    """Address and key of such a server, which is a child of this process."""
    key = secrets.token_hex(16)
    argv = [sys.executable, "-m", "orchard_cli", "env", "serve", "--port", "0", "--state", str(folder / "state")]
    argv += ["--isolation", isolation]
    environment = {**os.environ, "ORCHARD_ENV_API_KEY": key}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    # Ctrl-C is for us: what was done until then is still asked for.
    with subprocess.Popen(argv, env=environment, start_new_session=True, **pipes) as server:
        try:
            url = server.stdout.readline().strip() if server.stdout else ""
            if not url.startswith("http"):
                raise RunError(f"the server did not start: {server.stderr.read().strip() if server.stderr else ''}")
            yield url, key
        finally:
            server.terminate()
            server.wait(60)


def _run(argv: tuple[str, ...]) -> None:
    subprocess.run(argv, check=True, stdout=subprocess.PIPE)


def _right(box: Sandbox) -> None:
    if box.exec(ECHO).stdout != b"hi\n":
        raise RunError("the command printed something else")


def _measure(env: Env, spec: Spec, name: str, repeat: int, result: dict[str, Any]) -> None:
    made: list[Sandbox] = []
    ms = result["ms"]
    ms[f"{name}: create → ready"] = timed(lambda: made.append(env.open(spec)), repeat // 4)
    ms[f"{name}: delete"] = timed(lambda: made.pop().close(), repeat // 4)
    for box in made:
        box.close()
    with env.open(spec) as box:
        ms[f"{name}: exec"] = timed(lambda: _right(box), repeat)
        ms[f"{name}: read 1 KiB"] = timed(lambda: box.read("a.txt"), repeat // 2)
        ms[f"{name}: fork"] = timed(lambda: box.fork().close(), repeat // 8)
        if "runs" in str(env.describe().get("fork")):
            live = partial(box.fork, processes=True)
            ms[f"{name}: fork with all that runs"] = timed(lambda: live().close(), repeat // 20)
        throughput, times = crowd([lambda: _right(box)] * AT_ONCE, repeat * 4)
        ms[f"{name}: exec, {AT_ONCE} at once"] = times
        result["per_s"][f"{name}: exec, {AT_ONCE} at once"] = throughput


def crowd(runs: list[Callable[[], None]], count: int) -> tuple[float, Figures]:
    """Commands a second that succeeded, and their times, with one thread for each of `runs`."""
    with ThreadPoolExecutor(len(runs)) as pool:
        list(pool.map(lambda run: run(), runs))
        began = time.perf_counter()
        times = list(pool.map(lambda number: once(runs[number % len(runs)]), range(count)))
        seconds = time.perf_counter() - began
    good = sum(value < math.inf for value in times)
    return good / seconds, figures(times)


def many(env: RemoteEnv, spec: Spec, count: int, threads: int = 32) -> dict[str, Any]:
    """Create all, 4 commands in each, delete all."""
    began = time.perf_counter()
    opened: list[Sandbox] = []

    def create(_: int) -> float:
        return once(lambda: opened.append(env.open(spec)))

    def work(box: Sandbox) -> list[float]:
        return [once(lambda: _right(box)) for _ in range(4)]

    with ThreadPoolExecutor(threads) as pool:
        creates = list(pool.map(create, range(count)))
        created = time.perf_counter()
        execs = [value for values in pool.map(work, opened) for value in values]
        executed = time.perf_counter()
        deletes = list(pool.map(lambda box: once(box.close), opened))
    ended = time.perf_counter()
    missing = [math.inf] * (4 * (count - len(opened)))
    success = 1 - sum(value == math.inf for value in creates + execs + missing + deletes) / (6 * count)
    return {
        "sandboxes": count,
        "success": success,
        "seconds": {"create": created - began, "exec": executed - created, "delete": ended - executed},
        "total_s": ended - began,
        "ms": {"create": figures(creates), "exec": figures(execs + missing), "delete": figures(deletes)},
        "left": len(_left(env)),
    }


def _left(env: RemoteEnv) -> list[Any]:
    import msgspec

    items: list[Any] = msgspec.json.decode(env.client.ask("GET", "/v1/sandboxes", query={"limit": 1000}))["items"]
    return items


def rows(result: dict[str, Any]) -> list[Table]:
    """The result as tables for people."""
    about = "  ".join(f"{key}={value}" for key, value in result["machine"].items())
    tables: list[Table] = [(about, MS, [row(name, found) for name, found in result["ms"].items()])]
    rates: list[tuple[str, ...]] = [(name, f"{value:.0f}") for name, value in result["per_s"].items()]
    tables += [("throughput", ("", "commands/s"), rates)] if rates else []
    if crowd := result.get("many"):
        title = f"{crowd['sandboxes']} sandboxes: {crowd['success']:.2%} success, {crowd['total_s']:.1f} s in all"
        seconds = " ".join(f"{what} {value:.1f} s" for what, value in crowd["seconds"].items())
        title += f" ({seconds}), {crowd['left']} left over"
        tables.append((title, MS, [row(name, found) for name, found in crowd["ms"].items()]))
    return tables
