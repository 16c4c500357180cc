"""Tasks of a benchmark's file, at sites of the web: nothing is served here, and what came of it is judged."""

import hashlib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec.structs import replace

from orchard_cli import schema
from orchard_cli.domain import Grade
from orchard_cli.env.sandbox import Sandbox
from orchard_cli.errors import ConfigError, DataError, GradeError, SandboxError
from orchard_cli.harness.calls import CallFormat
from orchard_cli.policy.policy import Policy
from orchard_cli.task import Split, Task

from .loaders import Filter, Loaded, Problem, choose, distinct, load
from .settings import Config
from .visit import Site, Visit

SITE = Site("web")
JUDGE = {"webvoyager": "webvoyager", "mind2web": "webjudge", "deepshop": "deepshop"}  # as the benchmarks say
# a proxy, or a way of its own: an interface beside the loopback
ONLINE = 'test -n "$HTTP_PROXY" || tail -n +3 /proc/net/dev | grep -qv "^ *lo:"'
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Web:
    """The file is read on first use. With `tasks.train`, so many of its tasks, drawn by the seed, are for training;
    all others are for evaluation.
    """

    def __init__(self, tasks: schema.Tasks, config: Config, seed: int):
        if not tasks.path:
            raise ConfigError(f"tasks={tasks.kind} needs a file", hint="tasks.path=FILE, as the benchmark publishes it")
        self._tasks, self._config, self._seed = tasks, config, seed
        self.judge = JUDGE[tasks.kind]

    @cached_property
    def loaded(self) -> Loaded:
        path = Path(self._tasks.path)
        found = load(self._tasks.kind, path, today=date.today())
        if not found.tasks:
            first = f"; the first: {found.problems[0]}" if found.problems else ""
            raise DataError(f"{path} has no usable task", hint=f"one task a row, as {self._tasks.kind} has them{first}")
        return found

    @cached_property
    def _chosen(self) -> tuple[list[Task], Mapping[str, int]]:
        """(tasks, how many were left out by reason)."""
        by = self._config
        wanted = Filter(
            tuple(by.sites),
            tuple(by.not_sites),
            tuple(by.levels),
            most_words=by.max_words,
            today=date.today() if by.expired == "drop" else None,
            least_per_site=by.least_per_site,
            most_per_site=by.most_per_site,
        )
        named = [t for t in self.loaded.tasks if not self._tasks.families or t.family in self._tasks.families]
        tasks, left_out = choose(named, wanted)
        left_out["family"] = len(self.loaded.tasks) - len(named)
        if by.alike:
            tasks, same = distinct(tasks, least=by.alike)
            left_out["alike"] = len(same)
        return tasks, {why: n for why, n in left_out.items() if n}

    def tasks(self, split: Split) -> Iterator[Task]:
        found, _ = self._chosen
        free = [t.id for t in found if not {t.family, t.data["site"]} & set(self._config.held_out)]
        train = set(sorted(free, key=self._drawn)[: self._tasks.train])
        yield from (replace(t, split=split) for t in found if (t.id in train) == (split == "train"))

    def _drawn(self, id: str) -> str:
        return hashlib.sha256(f"{self._seed}/{id}".encode()).hexdigest()

    @property
    def problems(self) -> Sequence[Problem]:
        return self.loaded.problems

    @property
    def notes(self) -> Iterator[str]:
        """What a person should know of the tasks before anything is measured on them."""
        yield from self.loaded.notes()
        if left_out := self._chosen[1]:
            named = ", ".join(f"{n} {why}" for why, n in sorted(left_out.items()))
            yield f"{self.loaded.file}: {sum(left_out.values())} good tasks are left out: {named}"

    def site(self, task: Task) -> Site:
        return SITE

    def visit(self, task: Task) -> Visit:
        return Visit(str(task.data["start_url"]), any_certificate=self._config.any_certificate)

    def grade(self, task: Task, state: Mapping[str, Any]) -> Grade:
        raise GradeError(f"{task.id}: a site of the web has no state that we could read", code="no_state")

    def script(self, task: Task, *, seed: int, error_rate: float, format: CallFormat) -> Policy:
        raise ConfigError(f"tasks={self._tasks.kind} has no scripted teacher", hint="teacher=openai teacher.model=…")

    def wrong(self, task: Task, format: CallFormat) -> Sequence[Policy]:
        return ()


def online(url: str, sandbox: Sandbox) -> None:
    """Raises `SandboxError`, which no further attempt can escape, if `url` is elsewhere and nothing leads there."""
    host = urlsplit(url).hostname or ""
    if host in LOOPBACK or sandbox.exec(["sh", "-c", ONLINE], cwd="/").exit_code == 0:
        return
    raise SandboxError(
        f"the task starts at {url}, and the sandboxes have no network: env.network=open, or env.network=allowlist "
        f"with env.allow={shlex.quote(f'[{host}]')} and all that its pages load from",
        code="no_network",
        attributable="client",
        effect="none",
        retry="never",
    )
