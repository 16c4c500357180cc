"""Tasks in the world of services: what their sandbox is, how they are judged, and who plays them by script."""

from pathlib import Path

from orchard_cli import schema
from orchard_cli.domain import Grade
from orchard_cli.env.local.binds import python_binds
from orchard_cli.env.sandbox import Env, Sandbox, Spec
from orchard_cli.harness.calls import CALLS
from orchard_cli.harness.formats import FORMATS, chosen
from orchard_cli.harness.harness import Harness
from orchard_cli.policy.scripted import ScriptedPolicy
from orchard_cli.task import Task

from . import teacher
from .evidence import evidence
from .grade_score import judge
from .harness import MCP, harness, has_shell
from .loaders import graders
from .loaders.workspace import PYTHON, failing, variables
from .skills.speech import CommandSpeech
from .speech import Speech, ToolSpeech
from .world import launch

PROMPTS = Path(__file__).with_name("prompts")


class Assistant:
    """Thread-safe."""

    def __init__(self, settings: schema.Harness, timeout_s: float):
        self._settings, self._timeout_s = settings, timeout_s

    def harness(self, task: Task) -> Harness:
        return harness(self._settings, PROMPTS)

    def spec(self, task: Task) -> Spec:
        return Spec(binds=launch.binds(mcp=self._settings.kind == MCP), env=launch.variables())

    def prepare(self, task: Task, sandbox: Sandbox) -> None:
        launch.start(sandbox, task.data["world"])

    def export(self, task: Task, sandbox: Sandbox) -> str:
        return launch.export(sandbox, shell=has_shell(self._settings))

    def grade(self, task: Task, artifact: str, env: Env) -> Grade:
        """Declared checks run here; a grader that is code runs in a fresh sandbox. Raises `GradeError`."""
        found = evidence(artifact)
        if "grader" not in task.hidden:
            return judge(task.hidden, found)
        with failing(task), env.open(Spec(binds=python_binds(PYTHON), env=variables())) as sandbox:
            own = graders.completion(task, artifact, sandbox, self._timeout_s)
        return judge(task.hidden, found, own)

    def script(self, task: Task, *, seed: int, error_rate: float) -> ScriptedPolicy:
        return teacher.script(task, seed=seed, error_rate=error_rate, speech=self._speech())

    def noop(self, task: Task) -> ScriptedPolicy:
        return teacher.noop(self._speech())

    def wrong(self, task: Task) -> list[ScriptedPolicy]:
        return teacher.wrong(task, self._speech())

    def _speech(self) -> Speech:
        if has_shell(self._settings):
            return CommandSpeech(chosen(self._settings, self._settings.kind, FORMATS))
        return ToolSpeech(chosen(self._settings, self._settings.kind, CALLS))
