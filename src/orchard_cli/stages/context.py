"""What a stage is given: the whole configuration, its domain, the run's folder, and somewhere to report to."""

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from .. import schema
from ..domain import Domain
from ..env.sandbox import Env
from ..errors import RunError
from ..policy.policy import Policy
from ..task import Split, Task
from ..trajectory import Trajectory
from ..trajectory.blobs import FOLDER, Blobs

# Which sections of the configuration a stage reads; the rest of the command line is noted, not used.
READS: dict[str, tuple[str, ...]] = {
    "distill": ("seed", "tasks", "domain", "teacher", "env", "harness", "harnesses", "distill"),
    "credit": ("seed", "tasks", "domain", "teacher", "env", "harness", "harnesses", "credit"),
    "sft": ("seed", "model", "harness", "sft"),
    "rl": ("seed", "model", "tasks", "domain", "env", "harness", "harnesses", "distill", "rl"),
    "eval": ("seed", "model", "tasks", "domain", "teacher", "env", "harness", "harnesses", "eval"),
    "tasks": ("seed", "tasks", "domain"),
    "check": ("seed", "tasks", "domain", "env", "harness"),
}
# Whose output a stage is made from.
UPSTREAM: dict[str, tuple[str, ...]] = {
    "distill": (),
    "credit": ("distill",),
    "sft": ("distill", "credit"),
    "rl": ("sft",),
    "eval": ("sft", "rl"),
}


class Tracker(Protocol):
    """Progress of one long piece of work."""

    def update(self, *, done: int = 1, tokens: int = 0, counts: Mapping[str, object] | None = None) -> None:
        """`done` more units, `tokens` more tokens; `counts` replaces the outcome counts shown."""
        ...


class Reporter(Protocol):
    """Where a stage talks to a person; implemented by the console, and by a silent one in tests."""

    def track(self, title: str, total: int, unit: str = "attempts") -> AbstractContextManager[Tracker]: ...

    def note(self, text: str) -> None: ...

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None: ...


@dataclass(frozen=True)
class Context:
    """One stage's surroundings. `folder(stage)` is where that stage's files are."""

    name: str  # of the domain
    config: schema.Config
    domain: Domain
    root: Path
    report: Reporter
    others: Mapping[str, Domain] = field(default_factory=dict)  # by harness, where the run has several; else empty

    def folder(self, stage: str) -> Path:
        return self.root / stage

    def by_harness(self) -> dict[str, Domain]:
        """Name of the harness → the domain with it; one entry, without a name, where the run has one harness."""
        return dict(self.others) or {"": self.domain}

    def close(self) -> None:
        """Close the domains that hold something beyond their sandboxes (a browser, a judge): those with a `close`."""
        for domain in self.by_harness().values():
            getattr(domain, "close", lambda: None)()

    def turn(self, number: int) -> Domain:
        """The domain whose harness has its turn: attempts and groups are dealt to the harnesses in order."""
        built = list(self.by_harness().values())
        return built[number % len(built)]

    def of(self, trajectory: Trajectory, task: Task) -> Domain:
        """The domain with the harness that made the trajectory; the first one if none did."""
        built = self.by_harness().values()
        return next((d for d in built if d.harness(task).name == trajectory.harness), self.domain)

    def open_env(self) -> Env:
        from ..env import open_env

        return open_env(self.config.env)

    def open_teacher(self) -> Policy:
        """The teacher that is a model, with the run's pictures at hand. `ConfigError`s, also for `scripted`."""
        from ..policy import open_teacher

        return open_teacher(self.config.teacher, Blobs(self.root / FOLDER), self.config.harness.images)

    @property
    def concurrency(self) -> int:
        """Attempts at once: as set, else as the domain advises, else enough to fill a sampling batch."""
        advised: int = getattr(self.domain, "concurrency", 0)
        return self.config.env.concurrency or advised or 16 * (os.cpu_count() or 1)

    def tasks(self, split: Split) -> list[Task]:
        """The split's tasks, after `tasks.only` and `tasks.limit`. Raises `RunError` if there are none."""
        only, limit = set(self.config.tasks.only), self.config.tasks.limit
        tasks = [t for t in self.domain.tasks(split) if not only or t.id in only]
        return tasks[:limit] if limit else tasks

    def need_tasks(self, split: Split) -> list[Task]:
        """The tasks of a split, with what the domain has to say about them (its `notes`, if it has any)."""
        for note in getattr(self.domain, "notes", ()):
            self.report.note(f"warning: {note}")
        tasks = self.tasks(split)
        if not tasks:
            raise RunError(f"there are no {split} tasks", hint=f"`orchard {self.name} tasks` lists what there is")
        return tasks

    def distill_tasks(self) -> list[Task]:
        """Training tasks that the teacher attempts."""
        return self.need_tasks("train")[: self.config.distill.limit or None]

    def rl_tasks(self) -> list[Task]:
        """Training tasks that were held back from distill; all of them if none were."""
        tasks = self.need_tasks("train")
        return tasks[self.config.distill.limit :] or tasks

    def need(self, path: Path, what: str, stage: str) -> Path:
        """`path`, or the error that names the stage which writes it, or which has not finished it."""
        if not path.exists():
            raise RunError(
                f"no {what} in {path.parent}",
                hint=f"`orchard {self.name} {stage} run={self.config.run}` writes them",
            )
        if not (self.folder(stage) / "done.json").exists():
            raise RunError(
                f"{self.folder(stage)} is unfinished",
                hint=f"`orchard {self.name} {stage} run={self.config.run}` goes on with it",
            )
        return path


Summary = dict[str, Any]
