"""Browser agents: drive a real Chromium through pages and be judged by what came of it."""

import json
import os
import weakref
from collections.abc import Iterator, Sequence
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
from .browser import Browser, View
from .judging import STATE, Judging
from .seats import Seats
from .settings import Config
from .web import online

__all__ = ["Config", "Domain"]


class Domain:
    """Thread-safe: many attempts at once share the browsers that stand ready."""

    name = "gui"

    def __init__(self, config: Config, tasks: schema.Tasks, harness: schema.Harness, seed: int):
        self._config, self._settings = config, harness
        self._set = sets.chosen(tasks, config, seed)
        self.judging = Judging(config, self._set.judge)
        self._seats = Seats(config.reuse)
        self._finals: weakref.WeakKeyDictionary[Sandbox, dict[str, Any]] = weakref.WeakKeyDictionary()
        self.blobs: Blobs | None = None
        self.pictures = config.view != "axtree"
        self.concurrency = 2 * (os.cpu_count() or 1)  # a browser at work takes a core

    def tasks(self, split: Split) -> Iterator[Task]:
        return self._set.tasks(split)

    @property
    def problems(self) -> Sequence[Any]:
        """Bad rows of the task file; good ones are used all the same."""
        return getattr(self._set, "problems", ())

    @property
    def notes(self) -> Iterator[str]:
        """What a person should know of the tasks before anything is measured on them."""
        yield from getattr(self._set, "notes", ())

    def harness(self, task: Task) -> ReactLoop:
        """Raises `ConfigError`, also where there is nobody to judge: before the attempt is made."""
        self.judging.open(self.blobs)
        return ReactLoop(self._settings, Path(__file__).parent / "prompts" / self._settings.prompt, self._browser)

    def _browser(self, task: Task, sandbox: Sandbox) -> Browser:
        def final(state: dict[str, Any]) -> None:
            if self.judging.kind == STATE:  # nobody will look at these
                state = {key: value for key, value in state.items() if key not in ("actions", "shots")}
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
        """The browser is opened with the tools; here it is seen to that something leads to where it starts."""
        online(self._set.visit(task).url, sandbox)

    def close(self) -> None:
        """Give up the browsers that stand ready; they end with their environment in any case."""
        self._seats.close()
        self.judging.close()

    def export(self, task: Task, sandbox: Sandbox) -> str:
        """The end state as JSON: where the browser was, what the page and the site say, and the policy's answer."""
        return json.dumps(self._finals.pop(sandbox), ensure_ascii=False, sort_keys=True)

    def grade(self, task: Task, artifact: str, env: Env) -> Grade:
        state = _state(artifact)
        return self.judging.grade(task, state, self.blobs, lambda: self._set.grade(task, state))

    def world(self, task: Task, artifact: str) -> Grade:
        """What the world itself says of what an attempt left. Raises `GradeError` where nobody can read that."""
        return self._set.grade(task, _state(artifact))

    @property
    def _format(self) -> CallFormat:
        return CALLS[self._settings.format]

    def script(self, task: Task, *, seed: int, error_rate: float) -> Policy:
        """Raises `ConfigError` where there is no text: a script reads the lines that a policy is given, no pictures."""
        if self._config.view == "screenshot":
            raise ConfigError(
                "the scripted teacher and the oracle of `check` read text, not pictures: domain.view=screenshot",
                hint="domain.view=axtree|both|marks, or a teacher that sees: teacher=qwen3_vl_235b",
            )
        return self._set.script(task, seed=seed, error_rate=error_rate, format=self._format)

    def noop(self, task: Task) -> ScriptedPolicy:
        """Says at once that it is done."""
        return ScriptedPolicy.replies("noop", [self._format.encode([ToolCall("call_0", "done", {})])])

    def wrong(self, task: Task) -> Sequence[Policy]:
        return self._set.wrong(task, self._format)


def _state(artifact: str) -> dict[str, Any]:
    try:
        state = json.loads(artifact)
    except ValueError:
        state = None
    if not isinstance(state, dict):
        raise GradeError("the end state is no JSON object", code="bad_state")
    return state
