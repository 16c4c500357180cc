"""How far a judge can be trusted: its verdicts on a run's attempts against the world's own state, with intervals."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import msgspec

from orchard_cli.errors import GradeError, RunError
from orchard_cli.task import Task
from orchard_cli.trajectory import Blobs, Trajectory
from orchard_cli.trajectory.blobs import FOLDER

from ..attempts import attempts
from ..judges import Evidence, evidence
from ..judges.agreement import COLUMNS, Pair, agreement, cells, pairs

READS = ("tasks", "domain")


def run(context: Any) -> dict[str, Any]:
    """Verdicts that attempts were graded by are taken as they are; the judge that is chosen is asked about the others.

    Only attempts count that were handed in, at tasks whose world tells what became of it. Raises `RunError` if there
    is nothing to compare.
    """
    judge = context.domain.judging.open(Blobs(context.root / FOLDER))
    found: dict[str, list[Pair]] = defaultdict(list)
    for _, task, t in attempts(context):
        world = None if task is None else _world(context.domain, task, t)
        if task is None or world is None:
            continue
        given = t.grade.get("judge")
        if isinstance(given, Mapping) and (judge is None or given["judge"] == judge.name):
            found[given["judge"]].append(Pair(t.task_id, world, given["success"]))
        elif judge is not None:
            found[judge.name] += pairs(judge, [(t.task_id, _evidence(task, t), world)])
    if not found:
        raise RunError(
            "there is no verdict to compare with the state of the world",
            hint="it takes tasks=miniwob or tasks=shop, and a judge: domain.judge=webvoyager domain.judge_model=NAME",
        )
    made = [agreement(name, some, seed=context.config.seed) for name, some in sorted(found.items())]
    return {
        "ok": True,
        "line": f"{sum(a.n for a in made)} verdicts compared",
        "tables": [{"title": "judges against the state", "columns": list(COLUMNS), "rows": [cells(a) for a in made]}],
        "judges": msgspec.to_builtins(made),
    }


def _world(domain: Any, task: Task, t: Trajectory) -> bool | None:
    """Whether the task was done, by what the attempt left; None where that does not tell."""
    if t.stop != "submitted" or not t.artifact:
        return None
    try:
        solved: bool = domain.world(task, t.artifact).solved
    except GradeError:
        return None
    return solved


def _evidence(task: Task, t: Trajectory) -> Evidence:
    wanted = task.hidden.get("requirements", {})
    return evidence(task.prompt, t.messages, t.steps, url=str(task.data.get("start_url", "")), requirements=wanted)
