"""Times and memory of the browser on MiniWoB++: through the whole path, from the policy's call to what it sees.

    python bench/gui.py [--json] [--repeat 60] [--browsers 8] [--load-all] [--browsergym PYTHON]

A step is one action and the observation after it. `--load-all` opens every page once and names those that do not tell
their goal. `--browsergym` names a Python that has `browsergym-miniwob` installed; its step is measured in the same run.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from machine import describe
from orchard_cli.recipes.gui import chromium, miniwob
from orchard_cli.recipes.gui.browser import Browser, View
from orchard_cli.recipes.gui.miniwob import source
from orchard_cli.recipes.gui.seats import Seats
from orchard_cli.recipes.gui.visit import VIEWPORT

from orchard_cli.env.local.local import LocalEnv
from orchard_cli.env.sandbox import Sandbox
from orchard_cli.task import Task
from orchard_cli.trajectory import ToolCall

PAGES = ("click-test-2", "click-checkboxes", "enter-text", "click-tab-2", "email-inbox", "use-slider")
Figures = dict[str, float]


def task(page: str, seed: int = 0) -> Task:
    return Task(f"{page}-{seed}", "gui", "", data={"page": page, "seed": seed})


def opened(seats: Seats, sandbox: Sandbox, page: str, view: str = "axtree", *, large: bool = False) -> Browser:
    """`large`: in a window of 1280 x 720, as shops and live sites have it; else in that of the published pages."""
    keep, visit = View(view, lambda picture: str(len(picture))), miniwob.visit(task(page))
    visit = replace(visit, viewport=VIEWPORT) if large else visit
    return Browser(seats, sandbox, miniwob.site(), visit, keep, lambda _: None)


def figures(times: list[float]) -> Figures:
    times = sorted(1e3 * t for t in times)
    return {
        "min": times[0],
        "p50": statistics.median(times),
        "p90": times[int(0.9 * (len(times) - 1))],
        "n": len(times),
    }


def clocked(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def steps(seats: Seats, sandbox: Sandbox, view: str, repeat: int, *, large: bool = False) -> Figures:
    """Hovers and clicks on what does not end the episode, then looks."""
    times = []
    for page in PAGES:
        browser = opened(seats, sandbox, page, view, large=large)
        browser.open()
        for number in range(max(1, repeat // len(PAGES))):
            call = ToolCall("c", "hover" if number % 2 else "click", {"point_2d": [900 - number, 500]})
            times.append(clocked(lambda c=call, b=browser: (b.call(c), b.observe())))  # type: ignore[misc]
        browser.close()
    return figures(times)


def resets(seats: Seats, sandbox: Sandbox, repeat: int, *, ahead: bool) -> Figures:
    """A fresh profile at the start of an episode: back to back, or with the next one made ahead while nobody asks."""
    times = []
    for number in range(repeat):
        seat, _ = seats.take(sandbox, miniwob.site(), miniwob.visit(task(PAGES[0])))
        visit = miniwob.visit(task(PAGES[number % len(PAGES)], number))
        if ahead:
            seat.ask("rest", 10)
            time.sleep(0.5)
        times.append(clocked(lambda s=seat, v=visit: seats._reset(s, miniwob.site(), v)))  # type: ignore[misc]
        seats.give(miniwob.site(), seat)
    return figures(times)


def crowd(env: LocalEnv, count: int) -> Figures:
    """Memory of `count` browsers at once, each with a page open: proportional set size of all their processes."""
    seats = Seats(reuse=2)
    spec = chromium.spec(miniwob.site())
    before = len(below(env.spawner_pid))
    with ThreadPoolExecutor(2) as pool, tempfile.TemporaryDirectory():
        boxes = [env.open(spec) for _ in range(count)]
        browsers = [opened(seats, box, PAGES[i % len(PAGES)]) for i, box in enumerate(boxes)]
        began = time.perf_counter()
        list(pool.map(lambda b: b.open(), browsers))
        took = time.perf_counter() - began
        memory = pss(env.spawner_pid)
        list(pool.map(lambda b: b.close(), browsers))
    seats.close()
    for box in boxes:
        box.close()
    return {"browsers": count, "start_s": took, "pss_gib": memory / 2**30, "left": len(below(env.spawner_pid)) - before}


def below(pid: int) -> list[int]:
    found, left = [], [pid]
    while left:
        here = left.pop()
        try:
            children = [int(p) for p in Path(f"/proc/{here}/task/{here}/children").read_text().split()]
        except OSError:
            continue
        found += children
        left += children
    return found


def pss(pid: int) -> int:
    total = 0
    for each in below(pid):
        try:
            lines = Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return total


def load_all(seats: Seats, sandbox: Sandbox) -> dict[str, object]:
    mute = []
    for page in miniwob.names():
        browser = opened(seats, sandbox, page)
        try:
            if "Goal: " not in browser.open().text:
                mute.append(page)
        finally:
            browser.close()
    return {"pages": len(miniwob.names()), "without a goal": mute}


BROWSERGYM = """
import json, sys, time
import browsergym.miniwob, gymnasium
from playwright.sync_api import BrowserType
launch = BrowserType.launch  # it starts two browsers, one for its chat: both are to be the one that we measure
BrowserType.launch = lambda *a, **k: launch(*a, **k | {"executable_path": sys.argv[3], "headless": True})
times, resets = [], []
for page in sys.argv[1].split(","):
    env = gymnasium.make("browsergym/miniwob." + page)
    t = time.perf_counter(); env.reset(seed=0); resets.append(time.perf_counter() - t)
    for _ in range(int(sys.argv[2])):
        t = time.perf_counter(); env.step("mouse_move(20, 20)"); times.append(time.perf_counter() - t)
    env.close()
print(json.dumps([times, resets]))
"""


def browsergym(python: str, repeat: int) -> dict[str, Figures]:
    pages = ",".join(PAGES[:2])
    said = subprocess.run(
        [python, "-c", BROWSERGYM, pages, str(repeat // 4), str(chromium.executable())],
        capture_output=True,
        text=True,
        env=os.environ | {"MINIWOB_URL": f"{(source.pages() / 'miniwob').as_uri()}/"},
    )
    if said.returncode:
        sys.exit(f"error: BrowserGym did not run: {said.stderr.strip().splitlines()[-1]}")
    times, again = json.loads(said.stdout.splitlines()[-1])
    return {"browsergym step": figures(times), "browsergym reset": figures(again)}


def measure(options: argparse.Namespace) -> dict[str, object]:
    seats, result = Seats(reuse=10**6), dict[str, object](machine=describe(), chromium=str(chromium.executable()))
    with LocalEnv() as env, env.open(chromium.spec(miniwob.site())) as sandbox:
        first = opened(seats, sandbox, PAGES[0])
        table = {"first start": figures([clocked(first.open)])}
        first.close()
        table["reset"] = resets(seats, sandbox, options.repeat // 2, ahead=True)
        table["reset, in a row"] = resets(seats, sandbox, options.repeat // 2, ahead=False)
        table["step, text"] = steps(seats, sandbox, "axtree", options.repeat)
        table["step, screenshot"] = steps(seats, sandbox, "screenshot", options.repeat)
        table["step, both"] = steps(seats, sandbox, "both", options.repeat)
        for view in ("axtree", "screenshot", "both", "marks"):
            table[f"1280x720, {view}"] = steps(seats, sandbox, view, options.repeat, large=True)
        if options.load_all:
            result["all pages"] = load_all(seats, sandbox)
        seats.close()
        if options.browsers:
            result["at once"] = crowd(env, options.browsers)
    if options.browsergym:
        table |= browsergym(options.browsergym, options.repeat)
    return result | {"ms": table}


def show(result: dict[str, object]) -> None:
    table: dict[str, Figures] = result.pop("ms")  # type: ignore[assignment]
    for key, value in result.items():
        print(f"{key}: {value}")
    print(f"{'ms':18}{'min':>9}{'p50':>9}{'p90':>9}{'n':>5}")
    for name, row in table.items():
        print(f"{name:18}{row['min']:9.1f}{row['p50']:9.1f}{row['p90']:9.1f}{row['n']:5.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeat", type=int, default=60)
    parser.add_argument("--browsers", type=int, default=8)
    parser.add_argument("--load-all", action="store_true")
    parser.add_argument("--browsergym", default="")
    options = parser.parse_args()
    result = measure(options)
    print(json.dumps(result, indent=1)) if options.json else show(result)


if __name__ == "__main__":
    main()
