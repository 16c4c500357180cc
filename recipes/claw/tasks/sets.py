"""The task sets: `everyday` and `all` are drawn from the domain's own families, `file` from yours.

Training tasks come from training families alone. Eval has two parts, told apart in the report's table: other seeds
of the training families, and families that no training task belongs to.
"""

import hashlib
import importlib
import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import msgspec

from orchard_cli import schema
from orchard_cli.errors import ConfigError, DataError
from orchard_cli.task import Split, Task

from .family import Family, make
from .library import load, shipped
from .reading import Problem

GENERATED = ("everyday", "all", "file")
READERS = {  # task set → module of loaders/
    "claw_bench": "claw_bench",
    "claw_eval": "claw_eval",
    "qwenclaw": "markdown",
    "workplace": "workplace",
    "tau": "tau",
}
KINDS = (*GENERATED, *READERS)
SEEDS, FAMILIES = "held-out seeds", "held-out families"  # first part of an eval task's family
EVAL_FROM = 1_000_000  # seeds below are for training
HELD_OUT_SHARE = 1 / 3  # of the eval tasks
MOST_TRIES = 10  # draws for a task that is not like one before, times the tasks asked for
FILE_TRAIN, FILE_EVAL = 20, 10  # of each family of a file, unless told otherwise


class TaskSet:
    """What `tasks=` chose, after `tasks.only` and `tasks.limit`. Raises `ConfigError` for settings it does not read."""

    def __init__(self, tasks: schema.Tasks, seed: int):
        _check(tasks)
        self._tasks = tasks
        self._source = Rows(tasks) if tasks.kind in READERS else Generated(tasks, seed)

    @property
    def problems(self) -> list[Problem]:
        """The bad pages or rows of a file."""
        return self._source.problems

    def of(self, split: Split) -> Iterator[Task]:
        only = set(self._tasks.only)
        unknown = only and only - {t.id for s in ("train", "eval") for t in self._source.of(s)}
        if unknown:
            raise ConfigError(
                f"tasks.only: there is no task {', '.join(sorted(unknown))}", hint="`claw tasks` lists what there is"
            )
        found = (task for task in self._source.of(split) if not only or task.id in only)
        return islice(found, self._tasks.limit or None)


def _check(tasks: schema.Tasks) -> None:
    if tasks.kind not in KINDS:
        raise ConfigError(f"tasks.kind: claw has no `{tasks.kind}`", hint=f"there are: {', '.join(KINDS)}")
    if tasks.kind in ("everyday", "all") and tasks.path:
        raise ConfigError(f"tasks.path is not read by tasks={tasks.kind}, which draws its tasks", hint="tasks=file")
    if tasks.kind not in ("everyday", "all", "claw_bench") and not tasks.path:
        raise ConfigError(f"tasks={tasks.kind} needs a file or folder", hint="tasks.path=PATH")
    if tasks.kind in READERS and (tasks.train or tasks.eval or tasks.families):
        raise ConfigError(
            f"tasks.train, tasks.eval and tasks.families are not read by tasks={tasks.kind}, whose tasks are in files",
            hint="tasks.limit=N takes the first N of each split, tasks.only=[ID,…] names tasks",
        )


class Rows:
    """The tasks of a benchmark's files, read once."""

    def __init__(self, tasks: schema.Tasks):
        self._tasks = tasks
        self._made: list[Task] | None = None
        self._problems: list[Problem] = []

    @property
    def problems(self) -> list[Problem]:
        self._read()
        return self._problems

    def of(self, split: Split) -> Iterator[Task]:
        return (task for task in self._read() if task.split == split)

    def _read(self) -> list[Task]:
        if self._made is None:
            read = importlib.import_module(f"..loaders.{READERS[self._tasks.kind]}", __package__).read
            found = list(read(self._tasks.path))
            self._problems = [f for f in found if isinstance(f, Problem)]
            self._made = [f for f in found if isinstance(f, Task)]
        return self._made


class Generated:
    """What `tasks=everyday`, `tasks=all` or `tasks=file` chose. Made once."""

    def __init__(self, tasks: schema.Tasks, seed: int):
        self._tasks, self._seed = tasks, seed
        self._made: dict[Split, list[Task]] = {}
        self.problems: list[Problem] = []
        self._families = self._chosen(self._known())

    def of(self, split: Split) -> Iterator[Task]:
        if not self._made:
            seen: set[str] = set()
            self._made["train"] = self._drawn("train", seen)
            self._made["eval"] = self._drawn("eval", seen)
        return iter(self._made[split])

    def _known(self) -> list[Family]:
        if self._tasks.kind == "file":
            found, self.problems = load(Path(self._tasks.path))
            if not found:
                raise DataError(
                    f"{self._tasks.path}: no task can be read: {self.problems[0] if self.problems else 'it is empty'}",
                    hint="the format is in recipes/claw/README.md",
                )
            return list(found.values())
        return [f for f in shipped().values() if f.easy or self._tasks.kind == "all"]

    def _chosen(self, known: list[Family]) -> list[Family]:
        wanted = set(self._tasks.families)
        names = [f.name for f in known]
        if wanted - set(names):
            raise ConfigError(
                f"tasks.families: no {', '.join(sorted(wanted - set(names)))}", hint=f"there are: {', '.join(names)}"
            )
        return [f for f in known if not wanted or f.name in wanted]

    def _drawn(self, split: Split, seen: set[str]) -> list[Task]:
        single = [f for f in self._families if not f.page.get("draw")]
        tasks = [make(f, seed=0, split=split) for f in single if f.page.get("split", "eval") == split]
        drawn = [f for f in self._families if f.page.get("draw")]
        trained = [f for f in drawn if not f.held_out]
        if split == "train":
            return tasks + self._draw(trained, self._count("train", len(trained)), split, seen)
        held = [f for f in drawn if f.held_out]
        count = self._count("eval", len(drawn))
        apart = round(count * (HELD_OUT_SHARE if trained else 1)) if held else 0
        return [
            *tasks,
            *(_labelled(SEEDS, t) for t in self._draw(trained, count - apart, split, seen)),
            *(_labelled(FAMILIES, t) for t in self._draw(held, apart, split, seen)),
        ]

    def _count(self, split: Split, families: int) -> int:
        asked = self._tasks.train if split == "train" else self._tasks.eval
        if asked or self._tasks.kind != "file":
            return asked
        return families * (FILE_TRAIN if split == "train" else FILE_EVAL)

    def _draw(self, families: Sequence[Family], count: int, split: Split, seen: set[str]) -> list[Task]:
        """`count` tasks that differ from each other and from `seen`, by turns from each family."""
        tasks: list[Task] = []
        start = self._seed * 10_000_000 + (0 if split == "train" else EVAL_FROM)
        for turn in range(count * MOST_TRIES):
            if len(tasks) == count or not families:
                break
            family = families[turn % len(families)]
            task = make(family, seed=start + turn, split=split)
            if (mark := fingerprint(task)) not in seen:
                seen.add(mark)
                tasks.append(task)
        if len(tasks) < count:
            raise ConfigError(
                f"tasks.{split}={count}: only {len(tasks)} different tasks can be drawn",
                hint="ask for fewer, or let the families draw from larger pools",
            )
        return tasks


def benchmark(named: Sequence[str]) -> Iterator[Task]:
    """The tasks of `KIND:PATH` entries, such as `claw_bench:` or `tau:rows.json`. Raises `ConfigError`."""
    for entry in named:
        kind, colon, path = entry.partition(":")
        if kind not in READERS or not colon:
            raise ConfigError(f"domain.against: `{entry}` is not KIND:PATH", hint=f"kinds: {', '.join(READERS)}")
        for split in ("train", "eval"):
            yield from Rows(schema.Tasks(kind=kind, path=path)).of(split)


def fingerprint(task: Task) -> str:
    """Equal for tasks in which the same was drawn: the same request in other words, or with other noise around it."""
    said = json.dumps([task.family.rpartition("/")[2], task.hidden["drawn"]], sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()


def _labelled(part: str, task: Task) -> Task:
    return msgspec.structs.replace(task, family=f"{part}/{task.family}")
