"""Browser agents: drive a real Chromium through pages and be judged by what came of it."""

import json
import os
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchard_cli import schema
from orchard_cli.domain import Grade
from orchard_cli.env.sandbox import Env, Sandbox, Spec
from orchard_cli.errors import ConfigError, GradeError
from orchard_cli.harness.calls import CALLS, CallFormat
from orchard_cli.harness.react import ReactLoop
from orchard_cli.policy.policy import Policy
from orchard_cli.policy.scripted import ScriptedPolicy
from orchard_cli.task import Split, Task
from orchard_cli.trajectory import Blobs, ToolCall

from . import chromium, sets
from .browser import VIEWS, Browser, View
from .seats import Seats


@dataclass
class Config(schema.Domain):
    view: str = "axtree"
    """What the policy sees: axtree (text), screenshot, both, or marks (a screenshot with the elements' numbers)."""
    reuse: int = 50
    """Attempts that one browser serves, each with a fresh profile; 1: a browser in every attempt's own sandbox."""
    held_out: list[str] = field(default_factory=list)
    """Families that are for evaluation alone."""

    def __post_init__(self) -> None:
        if self.view not in VIEWS:
            raise ValueError(f"domain.view ({self.view}) is none of: {', '.join(VIEWS)}")
        if self.reuse < 1:
            raise ValueError(f"domain.reuse ({self.reuse}) is less than 1")


class Domain:
    """Thread-safe: many attempts at once share the browsers that stand ready."""

    name = "gui"

    def __init__(self, config: Config, tasks: schema.Tasks, harness: schema.Harness, seed: int):
        self._config, self._settings = config, harness
        self._set = sets.chosen(tasks, config.held_out, seed)
        self._seats = Seats(config.reuse)
        self._finals: weakref.WeakKeyDictionary[Sandbox, dict[str, Any]] = weakref.WeakKeyDictionary()
        self.blobs: Blobs | None = None
        self.concurrency = 4 * (os.cpu_count() or 1)

    def tasks(self, split: Split) -> Iterator[Task]:
        return self._set.tasks(split)

    def harness(self, task: Task) -> ReactLoop:
        return ReactLoop(self._settings, Path(__file__).parent / "prompts" / self._settings.prompt, self._browser)

    def _browser(self, task: Task, sandbox: Sandbox) -> Browser:
        def final(state: dict[str, Any]) -> None:
            self._finals[sandbox] = state

        view = View(self._config.view, self._keep)
        return Browser(self._seats, sandbox, self._set.site(task), self._set.visit(task), view, final)

    def _keep(self, picture: bytes) -> str:
        if self.blobs is None:
            raise ConfigError("there is no place for pictures", hint="domain.view=axtree")
        return self.blobs.put(picture)

    def spec(self, task: Task) -> Spec:
        return chromium.spec(self._set.site(task))

    def prepare(self, task: Task, sandbox: Sandbox) -> None:
        """Nothing: the browser is opened with the tools."""

    def close(self) -> None:
        """Give up the browsers that stand ready; they end with their environment in any case."""
        self._seats.close()

    def export(self, task: Task, sandbox: Sandbox) -> str:
        """The end state as JSON: where the browser was, what the page and the site say, and the policy's answer."""
        return json.dumps(self._finals.pop(sandbox), ensure_ascii=False, sort_keys=True)

    def grade(self, task: Task, artifact: str, env: Env) -> Grade:
        try:
            state = json.loads(artifact)
        except ValueError:
            state = None
        if not isinstance(state, dict):
            raise GradeError("the end state is no JSON object", code="bad_state")
        return self._set.grade(task, state)

    @property
    def _format(self) -> CallFormat:
        return CALLS[self._settings.format]

    def script(self, task: Task, *, seed: int, error_rate: float) -> Policy:
        return self._set.script(task, seed=seed, error_rate=error_rate, format=self._format)

    def noop(self, task: Task) -> ScriptedPolicy:
        """Says at once that it is done."""
        return ScriptedPolicy.replies("noop", [self._format.encode([ToolCall("call_0", "done", {})])])

    def wrong(self, task: Task) -> Sequence[Policy]:
        return self._set.wrong(task, self._format)
