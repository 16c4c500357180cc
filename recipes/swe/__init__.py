"""Coding agents: repair a repository so that hidden tests pass.

Three task sets: `minibugs` (generated, small, offline), `pypi` (real bugs of real packages, from their source
distributions) and `swebench` (any file in SWE-bench's schema; its images need a container back end).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from orchard_cli import schema
from orchard_cli.domain import Grade
from orchard_cli.env.sandbox import Env, Sandbox, Spec
from orchard_cli.harness.formats import FORMATS, chosen
from orchard_cli.harness.loop import MiniLoop
from orchard_cli.policy.scripted import ScriptedPolicy
from orchard_cli.task import Split, Task

from . import environment
from .admit import clean
from .grade import Grader
from .rows import Problem
from .script import noop, script
from .sdist import Sdist, folder
from .tasksets import TaskSet


@dataclass
class Config(schema.Domain):
    test_timeout_s: float = schema.setting(300.0, above=0)
    """Seconds for one run of the hidden tests; generated tasks have a shorter limit of their own."""


class Domain:
    """Thread-safe: many attempts at once share the cached trees, environments and grades."""

    name = "swe"

    def __init__(self, config: Config, tasks: schema.Tasks, harness: schema.Harness, seed: int):
        self._settings = harness
        self._tasks = TaskSet(tasks, seed)
        self._grader = Grader(self.spec, config.test_timeout_s)

    @property
    def problems(self) -> list[Problem]:
        """Bad lines of the task file; good lines are used all the same."""
        return self._tasks.problems

    def tasks(self, split: Split) -> Iterator[Task]:
        return self._tasks.of(split)

    def harness(self, task: Task) -> MiniLoop:
        return MiniLoop(self._settings, Path(__file__).parent / "prompts" / self._settings.prompt)

    def spec(self, task: Task) -> Spec:
        """What the task runs from: a tree, or an image. Raises `SandboxError` if the source cannot be had."""
        if "files" in task.data:
            from .minibugs import tree

            return Spec(tree=tree(task, folder("minibugs")), env={"PYTHONDONTWRITEBYTECODE": "1"})
        if "sdist" in task.data:
            made = environment.environment(task.data["setup"])
            return Spec(
                tree=Sdist.of(task.data).tree(),
                binds=environment.binds(made),
                env=environment.variables(made),
            )
        return Spec(image=task.data["image"], workdir=task.data["workdir"])

    def prepare(self, task: Task, sandbox: Sandbox) -> None:
        """Nothing: trees are made ready once, for all sandboxes."""

    def export(self, task: Task, sandbox: Sandbox) -> str:
        return clean(sandbox.diff())

    def grade(self, task: Task, artifact: str, env: Env) -> Grade:
        return self._grader.grade(task, artifact, env)

    def script(self, task: Task, *, seed: int, error_rate: float) -> ScriptedPolicy:
        say = chosen(self._settings, MiniLoop.name, FORMATS)
        if "files" in task.data:
            from . import minibugs

            return minibugs.script(task, seed=seed, error_rate=error_rate, format=say)
        return script(task, seed=seed, error_rate=error_rate, format=say)

    def noop(self, task: Task) -> ScriptedPolicy:
        """Submits at once: the other half of `check`."""
        return noop(chosen(self._settings, MiniLoop.name, FORMATS))
