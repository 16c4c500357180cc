"""Write a run's evaluation as the benchmark's own evaluator reads it."""

from collections import Counter
from pathlib import Path
from typing import Any

from orchard_cli.errors import RunError
from orchard_cli.task import Task
from orchard_cli.trajectory import Blobs, Trajectory
from orchard_cli.trajectory.blobs import FOLDER

from ..attempts import attempts
from ..loaders import results

READS = ("tasks", "domain", "eval")


def run(context: Any) -> dict[str, Any]:
    """Writes <run>/results/<policy and temperature>/<number of the attempt>/<task>/, one folder for each attempt that
    counts. WebVoyager's layout holds for DeepShop too, whose file has the same tasks.
    """
    blobs, written = Blobs(context.root / FOLDER), Counter[Path]()
    seen: Counter[tuple[str, str]] = Counter()
    for path, task, t in attempts(context):
        if task is None or path.parent != context.folder("eval") / "trajectories" or not t.outcome.counts:
            continue
        cell = path.name.removesuffix(".jsonl.zst")
        folder = context.root / "results" / cell / str(seen[cell, task.id])
        seen[cell, task.id] += 1
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder, task, t, blobs)
        written[folder] += 1
    if not written:
        raise RunError(
            "no attempt of an evaluation counts, at the tasks that are chosen",
            hint=f"`orchard {context.name} eval run={context.config.run}` with the same tasks makes some",
        )
    rows = [[str(folder), str(n)] for folder, n in sorted(written.items())]
    return {
        "ok": True,
        "line": f"{written.total()} results written",
        "tables": [{"title": "results", "columns": ["folder", "tasks"], "rows": rows}],
        "files": [str(folder) for folder in sorted(written)],
    }


def _write(folder: Path, task: Task, t: Trajectory, blobs: Blobs) -> None:
    benchmark = task.data.get("benchmark")
    if benchmark is None:
        raise RunError(
            f"{task.id} is of no benchmark with results of its own", hint="tasks=webvoyager, mind2web or deepshop"
        )
    write = results.mind2web if benchmark == "mind2web" else results.webvoyager
    write(folder, task, t, blobs.get)
