"""A grader in a task file is code of a stranger: it runs in a sandbox of its own, and what it says is checked."""

from pathlib import Path

import pytest
from orchard_cli.recipes.claw import Config, Domain

from orchard_cli import schema
from orchard_cli.env.sandbox import Env
from orchard_cli.outcome import Outcome
from orchard_cli.policy.policy import Sampling
from orchard_cli.rollout import Job, attempt
from orchard_cli.trajectory import Trajectory

PAGE = """\
family: own
say: "Add a todo: buy milk."
plan:
  - todo_add: {text: buy milk}
grader: |
"""
GOOD = 'def grade(export):\n    return float(any(t["text"] == "buy milk" for t in export["state"]["todo"]))\n'


def _run(tmp_path: Path, env: Env, code: str, nothing: bool = False) -> Trajectory:
    (tmp_path / "t.yaml").write_text(PAGE + "".join(f"  {line}\n" for line in code.splitlines()))
    tasks = schema.Tasks(kind="file", path=str(tmp_path / "t.yaml"))
    harness = schema.Harness(kind="react", format="calls")
    domain = Domain(Config(grader_timeout_s=3.0), tasks, harness, 0)
    (task,) = domain.tasks("eval")
    policy = domain.noop(task) if nothing else domain.script(task, seed=0, error_rate=0.0)
    return attempt(Job(task, policy, Sampling(), "check", 0), domain, env)


def test_its_number_is_the_completion(tmp_path: Path, env: Env) -> None:
    assert _run(tmp_path, env, GOOD).reward == 1.0
    assert _run(tmp_path, env, GOOD, nothing=True).reward == 0.0


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("def grade(export):\n    while True: pass\n", "grader.timeout"),
        ("def grade(export):\n    return 7\n", "grader.lies"),
        ("def grade(export):\n    return float('nan')\n", "grader.crash"),
        ("def grade(export):\n    return 'solved'\n", "grader.lies"),
        ("def grade(export):\n    raise SystemExit(0)\n", "grader.no_report"),
        (
            "import socket\nsocket.create_connection(('1.1.1.1', 53), 2)\ndef grade(export):\n    return 1\n",
            "grader.crash",
        ),
        ("def grad(export):\n    return 1\n", "grader.crash"),
    ],
)
def test_one_that_hangs_lies_crashes_or_dials_out_is_a_verifier_error(
    tmp_path: Path, env: Env, code: str, fault: str
) -> None:
    lost = _run(tmp_path, env, code)
    assert (lost.outcome, lost.reward) == (Outcome.VERIFIER_ERROR, None)
    assert lost.fault is not None and lost.fault.code == fault


def test_one_that_writes_outside_writes_nowhere(tmp_path: Path, env: Env) -> None:
    mark = tmp_path / "mark"
    code = f"def grade(export):\n    try: open({str(mark)!r}, 'w').write('x')\n    except OSError: pass\n    return 1\n"
    _run(tmp_path, env, code)
    assert not mark.exists()
