"""The assistant's world: until it is ready, a tool call, a command, reading it out, grading, and 64 attempts at once.

    python bench/claw.py [--repeat 20] [--at-once 64] [--harness react]

Wall-clock milliseconds in this process. In the last part all attempts stand at their first turn before any goes on;
memory is the proportional set size (each shared page counted once) of all sandboxes and of this process at that point.
"""

import argparse
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from machine import describe
from orchard_cli.recipes.claw.tools import NativeTools
from orchard_cli.recipes.claw.world import launch

from orchard_cli import schema
from orchard_cli.env.local.local import LocalEnv
from orchard_cli.env.sandbox import Sandbox
from orchard_cli.outcome import Outcome
from orchard_cli.policy.policy import Policy, Reply, Sampling
from orchard_cli.recipes import claw
from orchard_cli.rollout import Job, attempt
from orchard_cli.task import Task
from orchard_cli.trajectory import Message, ToolCall


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    result = call()
    return (time.perf_counter() - began) * 1e3, result


def show(name: str, times: Iterable[float], goal: str = "") -> None:
    ordered = sorted(times)
    p50, p99 = statistics.median(ordered), ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    print(f"{name:34}{ordered[0]:9.2f}{p50:9.2f}{p99:9.2f}{len(ordered):7}   {goal}")


def ratio(times: list[float], base: list[float]) -> float:
    return statistics.median(times) / statistics.median(base)


def domain_of(kind: str) -> claw.Domain:
    harness = schema.Harness(kind=kind, format="calls" if kind == "react" else "fence", max_steps=30)
    return claw.Domain(claw.Config(), schema.Tasks(kind="everyday", train=64, eval=64), harness, seed=0)


def one_world(env: LocalEnv, domain: claw.Domain, task: Task, repeat: int) -> None:
    opened: list[Sandbox] = []
    opening, bare, starting, exporting = [], [], [], []
    for _ in range(repeat):
        took, sandbox = timed(lambda: env.open(domain.spec(task)))
        opening.append(took)
        opened.append(sandbox)
        bare.append(timed(lambda: opened[-1].exec([str(launch.PYTHON), "-I", "-S", "-c", "pass"]))[0])
        starting.append(timed(lambda: domain.prepare(task, opened[-1]))[0])
        exporting.append(timed(lambda: domain.export(task, opened[-1]))[0])
        if len(opened) > 1:
            opened.pop(0).close()
    print(f"{'ms':34}{'min':>9}{'p50':>9}{'p99':>9}{'n':>7}")
    show("sandbox open", opening)
    show("bare interpreter, same sandbox", bare, f"services start: {ratio(starting, bare):.1f} x")
    show("services start", starting)
    show("world ready (both)", map(sum, zip(opening, starting, strict=True)), "goal p50 <= 300")
    calls(opened[-1], task, repeat * 10)
    show("claw command", (timed(lambda: opened[-1].exec("claw clock now"))[0] for _ in range(repeat)))
    show("export", exporting)
    artifact = launch.export(opened[-1], shell=True)
    grades = [timed(lambda: domain.grade(task, artifact, env))[0] for _ in range(repeat)]
    show("grade", grades, "goal p50 <= 50")
    opened[-1].close()


def calls(sandbox: Sandbox, task: Task, repeat: int) -> None:
    tools = NativeTools(task, sandbox)
    tools.open()
    reading, writing = ToolCall("c", "mail_list", {}), ToolCall("c", "todo_add", {"text": "Buy milk"})
    show("tool call that reads", (timed(lambda: tools.call(reading))[0] for _ in range(repeat)), "goal p50 <= 5")
    show("tool call that writes", (timed(lambda: tools.call(writing))[0] for _ in range(repeat)), "goal p50 <= 5")
    tools.close()


class Together:
    """The scripted teacher, held at its first turn until all attempts are there."""

    def __init__(self, teacher: Policy, barrier: threading.Barrier):
        self.name, self._teacher, self._barrier = teacher.name, teacher, barrier

    def reply(self, messages: Sequence[Message], *, sampling: Sampling, **more: Any) -> Reply:
        if not any(message.role == "assistant" for message in messages):
            self._barrier.wait(timeout=300)
        return self._teacher.reply(messages, sampling=sampling, **more)

    def close(self) -> None: ...


def at_once(env: LocalEnv, domain: claw.Domain, tasks: list[Task]) -> None:
    memory: list[float] = []
    barrier = threading.Barrier(len(tasks), action=lambda: memory.append(proportional_mib(env.spawner_pid)))
    jobs = [
        Job(task, Together(domain.script(task, seed=0, error_rate=0.0), barrier), Sampling(), "check", 0)
        for task in tasks
    ]
    began = time.perf_counter()
    with ThreadPoolExecutor(len(jobs)) as pool:
        ended = list(pool.map(lambda job: attempt(job, domain, env), jobs))
    took = time.perf_counter() - began
    solved = sum(trajectory.outcome == Outcome.SOLVED for trajectory in ended)
    steps = sum(len(trajectory.steps) for trajectory in ended)
    print(f"{len(jobs)} at once: {took:.1f} s, {solved} solved, {steps} turns, {memory[0]:.0f} MiB (goal <= 4096)")
    for trajectory in ended:
        if trajectory.outcome != Outcome.SOLVED:
            print(f"  {trajectory.task_id}: {trajectory.outcome} {trajectory.fault or ''}")


def proportional_mib(spawner: int) -> float:
    """Of this process, the spawner and all below it."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(") ")[2].split()[1])
        except OSError:
            continue
    wanted, size = {spawner}, 0
    while len(wanted) > size:
        size = len(wanted)
        wanted |= {pid for pid, parent in parents.items() if parent in wanted}
    return sum(map(_pss_kib, [*wanted, "self"])) / 1024


def _pss_kib(pid: int | str) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--at-once", type=int, default=64)
    parser.add_argument("--harness", choices=("react", "skills"), default="react")
    options = parser.parse_args()
    print(describe())
    domain = domain_of(options.harness)
    tasks = list(domain.tasks("train"))
    with LocalEnv() as env:
        one_world(env, domain, tasks[0], options.repeat)
        at_once(env, domain, (tasks * options.at_once)[: options.at_once])


if __name__ == "__main__":
    main()
