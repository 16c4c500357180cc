"""Grading: the exported diff, in a fresh sandbox, against tests that the agent never saw.

What the agent did wrong is a reward of 0; what the task or this machine did wrong is a `GradeError`. Where the
two look alike (no test reported, or none passed) the task is run once without the diff, and that decides.
"""

import hashlib
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from orchard_cli.domain import Grade
from orchard_cli.env.sandbox import Bind, Env, ExecResult, Sandbox, Spec
from orchard_cli.errors import GradeError, SandboxError
from orchard_cli.task import Task

from .admit import admit, id_file
from .diffs import sections
from .environment import plugin_folder
from .once import Once
from .verdict import Outcomes, Verdict, from_log, from_report, judge

PLUGIN = Path(__file__).with_name("report_plugin.py")
KEPT_OUTPUT = 65_536  # bytes of a test run's output, where the outcomes come from a report
KEPT_LOG = 64 * 2**20  # bytes, where they come from the output itself


@dataclass(frozen=True)
class Ran:
    """One run of the hidden tests. `problem`: why there is no sound result, empty if there is one."""

    outcomes: Outcomes = field(default_factory=dict)
    problem: str = ""  # patch_does_not_apply | tests_do_not_apply | timeout | oom | … | no_report
    tail: str = ""  # the end of the output


class Grader:
    """Thread-safe. Equal diffs of a task are graded once: balanced groups draw many of them."""

    def __init__(self, spec: Callable[[Task], Spec], timeout_s: float):
        self._spec = spec
        self._timeout_s = timeout_s
        self._grades: Once[Grade] = Once()
        self._baselines: Once[Ran] = Once()

    def grade(self, task: Task, artifact: str, env: Env) -> Grade:
        """Raises `GradeError` where the artifact cannot be judged."""
        digest = hashlib.sha256(artifact.encode("utf-8", "surrogatepass")).digest()
        return self._grades.get((task.id, digest), lambda: self._grade(task, artifact, env))

    def _grade(self, task: Task, artifact: str, env: Env) -> Grade:
        hidden = task.hidden
        files = {*_test_paths(hidden), *map(id_file, hidden["fail_to_pass"] + hidden["pass_to_pass"])}
        kept, left_out = admit(artifact, hidden["patch"], files)
        extra: dict[str, Any] = {"left_out": left_out} if left_out else {}
        if not kept.strip():
            return Grade(0.0, False, {"reason": "empty_patch", **extra})
        run = self._run(task, kept, env)
        if run.problem == "patch_does_not_apply":
            return Grade(0.0, False, {"reason": run.problem, **extra})
        verdict = judge(run.outcomes, hidden["fail_to_pass"], hidden["pass_to_pass"])
        if verdict.solved and not run.problem:
            return Grade(1.0, True, _details("resolved", verdict) | extra)
        if verdict.nothing_passed:
            self._need_sound_task(task, env)
        return Grade(0.0, False, _details(run.problem or "tests_failed", verdict) | extra)

    def _need_sound_task(self, task: Task, env: Env) -> None:
        """Raise `GradeError` if the tests do not work without any diff either."""
        run = self._baselines.get(task.id, lambda: self._run(task, "", env))
        verdict = judge(run.outcomes, (), task.hidden["pass_to_pass"])
        problem = run.problem
        if not problem and not run.outcomes:
            problem = "no_tests"
        elif not problem and verdict.pass_to_pass[1] and not verdict.pass_to_pass[0]:
            problem = "broken_before"
        if problem:
            raise GradeError(
                f"{task.id}: the tests do not work without a diff either ({problem}): {run.tail[-300:].strip()}",
                code=f"baseline.{problem}",
                effect="complete",
                retry="never",
                hint="`swe check` finds such tasks",
            )

    def _run(self, task: Task, diff: str, env: Env) -> Ran:
        with _plugin(task) as plugin:
            try:
                spec = self._spec(_with_tests(task))
                if plugin.bind:
                    spec = replace(spec, binds=(*spec.binds, plugin.bind(spec)))
                with env.open(spec) as sandbox:
                    problem = _apply(task, diff, sandbox)
                    return Ran(problem=problem) if problem else self._test(task, plugin, sandbox)
            except SandboxError as error:
                fault = error.fault
                if fault.attributable == "model":  # the code under test broke its own sandbox
                    return Ran(problem=fault.code)
                raise GradeError(
                    f"{task.id}: the grading sandbox failed: {fault.message}",
                    code=f"sandbox.{fault.code}",
                    attributable="infra",
                    retry=fault.retry,
                    hint=error.hint,
                ) from error

    def _test(self, task: Task, plugin: "_Plugin", sandbox: Sandbox) -> Ran:
        by_log = task.hidden["report"] not in ("plugin", "runner")
        result = sandbox.exec(
            task.hidden.get("eval_script") or task.hidden["test_cmd"],
            timeout_s=min(self._timeout_s, task.hidden.get("timeout_s", self._timeout_s)),
            env=plugin.env,
            stdin=f"{plugin.word}\n".encode() if plugin.word else b"",
            max_bytes=KEPT_LOG if by_log else KEPT_OUTPUT,
            merge=True,
        )
        output = result.stdout.decode(errors="replace")
        if by_log:
            outcomes = from_log(output, task.hidden["report"])
        else:
            outcomes = from_report(_report(sandbox, plugin.report), plugin.word)
        return Ran(outcomes, _problem(result, outcomes), output[-2000:])


@dataclass(frozen=True)
class _Plugin:
    """How the outcomes of one run come out. `bind` is None where the tests write the report themselves."""

    report: str = ""
    word: str = ""
    env: dict[str, str] = field(default_factory=dict)
    bind: Callable[[Spec], Bind] | None = None


@contextmanager
def _plugin(task: Task) -> Iterator[_Plugin]:
    """Names are random, so that nothing in the tree under test can have been made to stand in for them."""
    token = secrets.token_hex(8)
    report = f"/tmp/report-{token}.json"  # noqa: S108 - inside the sandbox
    if task.hidden["report"] != "plugin":
        yield _Plugin(report, env={"TASK_REPORT": report} if task.hidden["report"] == "runner" else {})
        return
    with tempfile.TemporaryDirectory(prefix="orchard-grade-") as folder:
        Path(folder).chmod(0o755)
        name = f"report_{token}"
        shutil.copyfile(PLUGIN, Path(folder, f"{name}.py"))
        env = {"TASK_REPORT": report, "PYTEST_ADDOPTS": f"-p {name}"}
        yield _Plugin(report, secrets.token_hex(16), env, lambda spec: _bind(Path(folder), spec))


def _bind(folder: Path, spec: Spec) -> Bind:
    return Bind(folder, str(plugin_folder(Path(spec.env["VIRTUAL_ENV"]))))


def _with_tests(task: Task) -> Task:
    """A task that lists its files, with the hidden ones among them: one cached tree instead of writes each time.

    No diff touches them, as `admit` leaves such changes out.
    """
    tests = task.hidden.get("test_files")
    if not tests:
        return task
    return msgspec.structs.replace(task, data=task.data | {"files": task.data["files"] | tests})


def _apply(task: Task, diff: str, sandbox: Sandbox) -> str:
    """Put the diff, then the hidden tests that are a patch, into a fresh sandbox. What went wrong, or empty."""
    if diff and not _patched(sandbox, diff):
        return "patch_does_not_apply"
    tests = task.hidden.get("test_patch", "")
    if tests and "eval_script" not in task.hidden and not _patched(sandbox, tests):
        return "tests_do_not_apply"
    return ""


def _patched(sandbox: Sandbox, diff: str) -> bool:
    try:
        sandbox.patch(diff)
    except SandboxError as error:
        if error.fault.code != "patch_failed":
            raise
        return False
    return True


def _report(sandbox: Sandbox, path: str) -> bytes:
    """The report, or nothing if the tests left none that can be read."""
    try:
        return sandbox.read(path, max_bytes=KEPT_LOG)
    except SandboxError as error:
        if error.fault.attributable == "infra":
            raise
        return b""


def _problem(result: ExecResult, outcomes: Outcomes) -> str:
    if result.reason != "exited":
        return result.reason
    return "" if outcomes else "no_report"


def _test_paths(hidden: dict[str, Any]) -> Iterator[str]:
    yield from hidden.get("test_files", {})
    for section in sections(hidden.get("test_patch", "")):
        yield from section.paths


def _details(reason: str, verdict: Verdict) -> dict[str, Any]:
    return {
        "reason": reason,
        "fail_to_pass": list(verdict.fail_to_pass),
        "pass_to_pass": list(verdict.pass_to_pass),
        "failed": list(verdict.failed[:50]),
    }
