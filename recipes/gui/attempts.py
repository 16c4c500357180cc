"""The attempts that a run holds, with their tasks."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from orchard_cli.errors import RunError
from orchard_cli.task import Task
from orchard_cli.trajectory import Trajectory
from orchard_cli.trajectory.reading import read


def files(context: Any) -> list[Path]:
    """Every file of trajectories in the run, by stage. Raises `RunError` if there is none."""
    found = sorted(p for p in context.root.glob("*/**/*.jsonl.zst") if p.stat().st_size)
    if not found:
        hint = f"`orchard {context.name} eval run={context.config.run}` makes some"
        raise RunError(f"{context.root} holds no attempts", hint=hint)
    return found


def tasks(context: Any) -> dict[str, Task]:
    """Task id → task, of both splits."""
    return {t.id: t for split in ("train", "eval") for t in context.tasks(split)}


def attempts(context: Any) -> Iterator[tuple[Path, Task | None, Trajectory]]:
    """(file, its task if it is among those that are chosen, attempt)."""
    known = tasks(context)
    for path in files(context):
        for trajectory in read(path):
            yield path, known.get(trajectory.task_id), trajectory
