"""Tasks whose world is a folder of files and a shell: how their sandbox is made, kept and judged.

The workspace is made by the task's own set-up, inside the sandbox. What is judged is all that then lies in it, in a
fresh sandbox without network; the task's grader runs there, and whatever it does stays there.
"""

import base64
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from orchard_cli import schema
from orchard_cli.domain import Grade
from orchard_cli.env.local.binds import python_binds
from orchard_cli.env.sandbox import Bind, Env, ExecResult, Sandbox, Spec
from orchard_cli.errors import GradeError, SandboxError
from orchard_cli.harness.formats import FORMATS, Format
from orchard_cli.harness.harness import Harness
from orchard_cli.harness.loop import SENTINELS, MiniLoop
from orchard_cli.policy.scripted import ScriptedPolicy
from orchard_cli.task import Task

from . import graders
from .recorded import Recorded, Said

PROMPTS = Path(__file__).with_name("prompts")
PYTHON = Path(sys.executable)
PLACE = "/task/environment"
WORKDIR = "/workspace"
SETUP_S, SOLUTION_S = 120.0, 300.0
SUBMIT = f"echo {SENTINELS[0]}"


class Workspace:
    """Thread-safe."""

    def __init__(self, settings: schema.Harness, timeout_s: float):
        shell = settings.format if settings.format in FORMATS else "fence"
        self._settings = replace(settings, kind=MiniLoop.name, format=shell)
        self._timeout_s = timeout_s
        self._said = Said()

    @property
    def _say(self) -> Format:
        return FORMATS[self._settings.format]

    def harness(self, task: Task) -> Harness:
        return Recorded(MiniLoop(self._settings, PROMPTS), self._said)

    def spec(self, task: Task) -> Spec:
        place = task.data.get("environment")
        shown = (Bind(Path(place), PLACE),) if place else ()
        return Spec(workdir=WORKDIR, binds=(*shown, *python_binds(PYTHON)), env=variables())

    def prepare(self, task: Task, sandbox: Sandbox) -> None:
        """Run the task's set-up, then add its data files, as the benchmark's own runner does."""
        for path, file in task.data.get("copies", {}).items():
            sandbox.write(path, file["text"].encode() if "text" in file else Path(file["path"]).read_bytes())
        if "environment" not in task.data:
            return
        made = (
            f"if [ -f {PLACE}/setup.sh ]; then bash {PLACE}/setup.sh {WORKDIR}; fi",
            f"if [ -d {PLACE}/data ]; then cp -rT {PLACE}/data {WORKDIR}; fi",
        )
        for command in made:
            _need(sandbox.exec(command, timeout_s=SETUP_S, merge=True), task)

    def export(self, task: Task, sandbox: Sandbox) -> str:
        return graders.artifact(sandbox.diff(), self._said.take(sandbox.id))

    def grade(self, task: Task, artifact: str, env: Env) -> Grade:
        """Raises `GradeError` where the grader fails, hangs, or says what no grader may say."""
        with failing(task), env.open(replace(self.spec(task), binds=python_binds(PYTHON))) as sandbox:
            return graders.grade(task, artifact, sandbox, self._timeout_s)

    def script(self, task: Task, *, seed: int, error_rate: float) -> ScriptedPolicy:
        """The benchmark's own solution, if there is one; else it submits at once."""
        solution = task.hidden.get("solution", "")
        if not solution:
            return self.noop(task)
        # encoded, as a solution may hold fences, which end a command
        text = base64.encodebytes(solution.encode()).decode()
        run = f"base64 -d > /tmp/solve.sh <<'END'\n{text}END\nbash /tmp/solve.sh {WORKDIR}"
        return ScriptedPolicy.replies("script", [self._say.encode(run), self._say.encode(SUBMIT)])

    def noop(self, task: Task) -> ScriptedPolicy:
        return ScriptedPolicy.replies("noop", [self._say.encode(SUBMIT)])

    def wrong(self, task: Task) -> list[ScriptedPolicy]:
        return []


@contextmanager
def failing(task: Task) -> Iterator[None]:
    """A grading sandbox that fails is the verifier's failure, never the policy's."""
    try:
        yield
    except SandboxError as error:
        code = f"sandbox.{error.fault.code}"
        raise GradeError(f"{task.id}: the grading sandbox failed: {error.fault.message}", code=code) from error


def variables() -> dict[str, str]:
    return {
        "PATH": f"{PYTHON.parent}:/usr/local/bin:/usr/bin:/bin",
        "PYTHONDONTWRITEBYTECODE": "1",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
    }


def _need(result: ExecResult, task: Task) -> None:
    if not result.ok:
        said = result.stdout.decode(errors="replace").strip()[-300:] or result.reason
        raise SandboxError(f"{task.id}: its set-up failed: {said}", code="setup_failed", effect="none", retry="never")
