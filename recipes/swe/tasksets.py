"""The task sets of this domain: `minibugs` is generated, `pypi` and `swebench` are read from a file."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from orchard_cli import schema
from orchard_cli.errors import ConfigError
from orchard_cli.task import Split, Task

from . import instances
from .rows import Problem

FILES = {"pypi": instances.by_package, "swebench": instances.for_eval}
KINDS = ("minibugs", *FILES)


class TaskSet:
    """What `tasks=` chose. `problems` are the bad lines of the file, once it has been read."""

    def __init__(self, tasks: schema.Tasks, seed: int):
        _check(tasks)
        self._tasks, self._seed = tasks, seed
        self._file: list[Task] | None = None
        self._problems: list[Problem] = []
        self._made: dict[Split, list[Task]] = {}

    @property
    def problems(self) -> list[Problem]:
        if self._tasks.kind in FILES:
            self._read()
        return self._problems

    def of(self, split: Split) -> Iterator[Task]:
        """The tasks of a split in their order, after `tasks.only` and `tasks.limit`."""
        only = set(self._tasks.only)
        unknown = only - self._ids() if only else set()
        if unknown:
            raise ConfigError(
                f"tasks.only: there is no task {', '.join(sorted(unknown))}", hint="`swe tasks` lists what there is"
            )
        chosen = (task for task in self._all(split) if not only or task.id in only)
        yield from islice(chosen, self._tasks.limit or None)

    def _ids(self) -> set[str]:
        return {task.id for split in ("train", "eval") for task in self._all(split)}

    def _all(self, split: Split) -> Iterator[Task]:
        if self._tasks.kind == "minibugs":
            return iter(self._generated(split))
        return (task for task in self._read() if task.split == split)

    def _generated(self, split: Split) -> list[Task]:
        """Made once; every stage of a run asks again."""
        if split not in self._made:
            from .minibugs import FAMILIES, generate

            unknown = set(self._tasks.families) - set(FAMILIES)
            if unknown:
                named = ", ".join(sorted(unknown))
                raise ConfigError(f"tasks.families: no {named}", hint=f"there are: {', '.join(FAMILIES)}")
            count = self._tasks.train if split == "train" else self._tasks.eval
            families = tuple(self._tasks.families) or tuple(FAMILIES)
            self._made[split] = list(generate(split, count, self._seed, families=families))
        return self._made[split]

    def _read(self) -> list[Task]:
        if self._file is None:
            problems: list[Problem] = []
            self._file = list(instances.read(Path(self._tasks.path), FILES[self._tasks.kind], problems))
            self._problems = problems
        return self._file


def _check(tasks: schema.Tasks) -> None:
    """A setting that the chosen kind does not read is an error, never silence."""
    if tasks.kind not in KINDS:
        raise ConfigError(f"tasks.kind: swe has no `{tasks.kind}`", hint=f"there are: {', '.join(KINDS)}")
    if tasks.kind in FILES and not tasks.path:
        raise ConfigError(f"tasks={tasks.kind} needs a file", hint="tasks.path=FILE.jsonl")
    if tasks.kind == "minibugs" and tasks.path:
        raise ConfigError(
            "tasks.path is not read by tasks=minibugs, which generates its tasks", hint="tasks=pypi or tasks=swebench"
        )
    if tasks.kind in FILES and tasks.families:
        raise ConfigError(f"tasks.families is not read by tasks={tasks.kind}", hint="tasks.only=[ID,…] names tasks")
    if tasks.kind in FILES and (tasks.train or tasks.eval):
        raise ConfigError(
            f"tasks.train and tasks.eval are not read by tasks={tasks.kind}, whose tasks are in the file",
            hint="tasks.limit=N takes the first N of each split",
        )
