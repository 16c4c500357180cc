"""Graders that are code of a task: pytest files and `grade` functions, run in a fresh sandbox under a deadline.

A grader that hangs, crashes or says what is no score is a `GradeError`: nothing is known about the policy then.
"""

import json
import math
import secrets
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

from orchard_cli.domain import Grade
from orchard_cli.env.sandbox import ExecResult, Sandbox
from orchard_cli.errors import GradeError, SandboxError
from orchard_cli.task import Task
from orchard_cli.trajectory import Message

FOLDER = "/grader"
PASS = 0.75
MOST_REPORT = 4 * 2**20  # bytes
ON_EXPORT = """\
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("grader", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
score = module.grade(json.load(open(sys.argv[2])))
json.dump({"completion": score}, open(sys.argv[3], "w"), allow_nan=False)
"""
RUNNER = """\
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("grader", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
scores = module.grade(json.load(open(sys.argv[2])), sys.argv[3])
json.dump(scores, open(sys.argv[4], "w"), allow_nan=False)
"""


def artifact(diff: str, messages: Sequence[Message]) -> str:
    """What is judged: the files, and what was said, in the form that OpenClaw writes and graders read."""
    return json.dumps({"diff": diff, "transcript": [spoken(m) for m in messages if m.role != "system"]})


def spoken(message: Message) -> dict[str, Any]:
    """One line of an OpenClaw session."""
    content: list[dict[str, Any]] = [{"type": "text", "text": message.content}] if message.content else []
    content += [{"type": "toolCall", "id": c.id, "name": c.name, "arguments": c.arguments} for c in message.tool_calls]
    role = "toolResult" if message.role == "tool" else message.role
    return {"type": "message", "message": {"role": role, "content": content}}


def grade(task: Task, artifact: str, sandbox: Sandbox, timeout_s: float) -> Grade:
    """Judge in `sandbox`, which is fresh. Raises `GradeError`; `SandboxError` if the sandbox fails."""
    left = json.loads(artifact)
    if left["diff"]:
        _patched(task, left["diff"], sandbox)
    limit = min(timeout_s, float(task.hidden.get("timeout_s", timeout_s)))
    if task.hidden["grader"] == "pytest":
        return _pytest(task, sandbox, limit)
    return _function(task, left["transcript"], sandbox, limit)


def _patched(task: Task, diff: str, sandbox: Sandbox) -> None:
    try:
        sandbox.patch(diff)
    except SandboxError as error:
        raise GradeError(f"{task.id}: the workspace cannot be made again", code="workspace", retry="fresh") from error


def _pytest(task: Task, sandbox: Sandbox, limit: float) -> Grade:
    """All tests of the file must pass; the share that does is in the details."""
    report = f"/tmp/report-{secrets.token_hex(8)}.xml"  # noqa: S108 - inside the sandbox
    for path, text in task.hidden["files"].items():
        sandbox.write(f"{FOLDER}/{path}", text.encode())
    place = f"{FOLDER}/{task.hidden['test']}"
    flags = f"-q -p no:cacheprovider --noconftest -p {task.hidden['plugin']} -W ignore --tb=line --no-header"
    command = f"cd {FOLDER} && python -m pytest {place} {flags} --workspace={sandbox.workdir} --junitxml={report}"
    env = {"PYTHONPATH": FOLDER, "WORKSPACE": sandbox.workdir, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    result = sandbox.exec(command, timeout_s=limit, env=env, merge=True, max_bytes=65_536)
    _ended(task, result, (0, 1))
    good, total = _counted(task, _read(sandbox, report, task))
    passed = result.exit_code == 0 and 0 < total == good
    details: dict[str, Any] = {"checks": [good, total]}
    if not passed:
        details["tail"] = result.stdout.decode(errors="replace")[-600:]
    return Grade(float(passed), passed, details)


def _counted(task: Task, report: bytes) -> tuple[int, int]:
    """(passed, run) of a JUnit report. Entities are refused: the report is hostile."""
    if b"<!" in report:
        raise GradeError(f"{task.id}: the report of the tests is no report", code="report")
    try:
        suites = ElementTree.fromstring(report).iter("testsuite")  # noqa: S314 - no entities, bounded
        rows = [{k: int(s.get(k, "0")) for k in ("tests", "failures", "errors", "skipped")} for s in suites]
    except (ElementTree.ParseError, ValueError) as error:
        raise GradeError(f"{task.id}: the report of the tests cannot be read: {error}", code="report") from error
    total = sum(r["tests"] - r["skipped"] for r in rows)
    return total - sum(r["failures"] + r["errors"] for r in rows), total


def completion(task: Task, export: str, sandbox: Sandbox, limit: float) -> float:
    """What the `grader` of a task file says: `grade(export) -> number from 0 to 1`. Raises `GradeError`."""
    report = f"/tmp/score-{secrets.token_hex(8)}.json"  # noqa: S108 - inside the sandbox
    sandbox.write(f"{FOLDER}/grader.py", task.hidden["grader"].encode())
    sandbox.write(f"{FOLDER}/run.py", ON_EXPORT.encode())
    sandbox.write(f"{FOLDER}/export.json", export.encode())
    words = f"-I {FOLDER}/run.py {FOLDER}/grader.py {FOLDER}/export.json {report}"
    result = sandbox.exec(f"python {words}", timeout_s=limit, merge=True, max_bytes=65_536)
    _ended(task, result, (0,))
    return _scores(task, _read(sandbox, report, task))["completion"]


def _function(task: Task, transcript: list[dict[str, Any]], sandbox: Sandbox, limit: float) -> Grade:
    """`grade(transcript, workspace_path) -> {criterion: number}`; the score is their mean."""
    report = f"/tmp/scores-{secrets.token_hex(8)}.json"  # noqa: S108 - inside the sandbox
    sandbox.write(f"{FOLDER}/grader.py", task.hidden["code"].encode())
    sandbox.write(f"{FOLDER}/run.py", RUNNER.encode())
    sandbox.write(f"{FOLDER}/transcript.json", json.dumps(transcript).encode())
    words = f"{FOLDER}/run.py {FOLDER}/grader.py {FOLDER}/transcript.json {sandbox.workdir} {report}"
    result = sandbox.exec(f"python {words}", timeout_s=limit, merge=True, max_bytes=65_536)
    _ended(task, result, (0,))
    scores = _scores(task, _read(sandbox, report, task))
    mean = sum(scores.values()) / len(scores)
    passed = mean >= task.hidden.get("pass_at", PASS) - 1e-9
    return Grade(round(mean, 6), passed, {"scores": scores, "skipped": task.hidden.get("skipped", [])})


def _scores(task: Task, report: bytes) -> Mapping[str, float]:
    try:
        said = json.loads(report)
        numbers = {str(k): float(v) for k, v in said.items() if isinstance(v, (int, float))}  # true is 1
    except (ValueError, AttributeError) as error:
        raise GradeError(f"{task.id}: the grader gave no scores: {error}", code="grader.lies") from error
    if not numbers or any(not math.isfinite(n) or not 0 <= n <= 1 for n in numbers.values()):
        raise GradeError(f"{task.id}: the grader's scores are not within 0 and 1: {numbers}", code="grader.lies")
    return numbers


def _ended(task: Task, result: ExecResult, codes: tuple[int, ...]) -> None:
    """Raises `GradeError` unless the grader ended by itself, with one of `codes`."""
    if result.reason == "exited" and result.exit_code in codes:
        return
    said = result.stdout.decode(errors="replace").strip().split("\n")[-1][-300:]
    code = "grader.crash" if result.reason == "exited" else f"grader.{result.reason}"
    raise GradeError(f"{task.id}: the grader failed ({result.reason} {result.exit_code}): {said}", code=code)


def _read(sandbox: Sandbox, path: str, task: Task) -> bytes:
    try:
        return sandbox.read(path, max_bytes=MOST_REPORT)
    except SandboxError as error:
        if error.fault.attributable == "infra":
            raise
        raise GradeError(f"{task.id}: the grader left no report", code="grader.no_report") from error
