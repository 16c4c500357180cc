"""Claw-Eval's tasks with services and graders of their own, in real sandboxes."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from orchard_cli.recipes.claw import Config, Domain

from orchard_cli import schema
from orchard_cli.env.sandbox import Env
from orchard_cli.errors import DataError
from orchard_cli.harness.calls import CALLS
from orchard_cli.outcome import Outcome
from orchard_cli.policy.policy import Sampling
from orchard_cli.policy.scripted import ScriptedPolicy
from orchard_cli.rollout import Job, attempt
from orchard_cli.trajectory import ToolCall, Trajectory

from ...gui.judges.conftest import Endpoint
from .claw_eval_copy import GRADER, SERVER, TASK, write

pytest.importorskip("fastapi")
REACT = schema.Harness(kind="react", format="tool", prompt="full", max_steps=6)
LOOK = ToolCall("call_0", "gmail_list_messages", {})


@pytest.fixture
def judge() -> Iterator[Endpoint]:
    made = Endpoint()
    yield made
    made.close()


def domain(path: Path, judge: Endpoint | None = None) -> Domain:
    asks = {"judge_model": "judge", "judge_base_url": judge.url, "judge_api_key_env": ""} if judge else {}
    return Domain(Config(**asks), schema.Tasks(kind="claw_eval", path=str(path)), REACT, 0)


def played(made: Domain, env: Env, answer: str, *calls: ToolCall) -> Trajectory:
    turns = [*calls, ToolCall("call_9", "done", {"answer": answer})]
    policy = ScriptedPolicy.replies("acting", [CALLS["tool"].encode([call]) for call in turns])
    (task,) = made.tasks("eval")
    return attempt(Job(task, policy, Sampling(), "eval", 0), made, env)


def test_services_answer_and_the_grader_sees_calls_answer_and_audit(tmp_path: Path, env: Env) -> None:
    made = domain(write(tmp_path))
    solved = played(made, env, "The one on the budget.", LOOK)
    assert (solved.outcome, solved.reward) == (Outcome.SOLVED, 1.0), solved.fault
    assert any('"subject": "budget"' in message.content for message in solved.messages)
    assert (played(made, env, "The one on the budget.").reward, played(made, env, "none", LOOK).reward) == (0.6, 0.6)
    sent = played(made, env, "budget", LOOK, ToolCall("call_1", "gmail_send_message", {"to": "x"}))
    assert (sent.outcome, sent.reward) == (Outcome.UNSOLVED, 0.0)


def test_a_call_that_goes_wrong_is_shown_and_counted_against_robustness(tmp_path: Path, env: Env) -> None:
    for wrong in (ToolCall("call_1", "gmail_send_message", {}), ToolCall("call_1", "no_such", {})):
        tried = played(domain(write(tmp_path)), env, "budget", wrong, LOOK)
        assert tried.reward == 0.8 and tried.outcome is Outcome.SOLVED
        assert any("to whom?" in m.content or "unknown_tool" in m.content for m in tried.messages)


def test_the_agents_sandbox_holds_no_grader(tmp_path: Path, env: Env) -> None:
    made = domain(write(tmp_path))
    (task,) = made.tasks("eval")
    with env.open(made.spec(task)) as sandbox:
        assert sandbox.exec("find /opt/claw-eval -name '*.json'").stdout.count(b"inbox.json") == 1
        assert sandbox.exec("find / -name grader.py -path '*T1*' 2>/dev/null").stdout == b""


def test_a_judge_is_asked_and_one_that_fails_or_is_not_there_is_never_a_score(
    tmp_path: Path, env: Env, judge: Endpoint
) -> None:
    write(tmp_path)
    judge.answers = ['{"score": 0.9}']
    said = played(domain(tmp_path, judge), env, "well put", LOOK)
    assert said.reward == pytest.approx(0.92) and said.grade["judge_calls"] == 1
    judge.answers = [500]
    failed = played(domain(tmp_path, judge), env, "well put", LOOK)
    assert failed.outcome is Outcome.VERIFIER_ERROR and failed.fault and failed.fault.code == "judge.failed"
    absent = played(domain(tmp_path), env, "well put", LOOK)
    assert absent.outcome is Outcome.VERIFIER_ERROR and absent.fault
    assert (absent.fault.code, absent.fault.retry) == ("judge.none", "never")


@pytest.mark.parametrize(
    ("grader", "code"),
    [
        (GRADER.replace("return DimensionScores(", "raise ValueError('odd') or ("), "grader.crash"),
        (GRADER.replace("robustness=float(not wrong)", "robustness=7.0"), "grader.lies"),
        ("import os\nprint('{\"completion\": 1}')\nos._exit(0)\n", "grader.lies"),
    ],
)
def test_a_grader_that_crashes_or_lies_is_a_verifier_error(tmp_path: Path, env: Env, grader: str, code: str) -> None:
    tried = played(domain(write(tmp_path, grader=grader)), env, "budget", LOOK)
    assert tried.outcome is Outcome.VERIFIER_ERROR and tried.fault and tried.fault.code == code


def test_a_service_that_does_not_start_is_an_infrastructure_fault_with_its_words(tmp_path: Path, env: Env) -> None:
    tried = played(domain(write(tmp_path, server="raise SystemExit('no port for me')\n")), env, "budget")
    assert tried.outcome is Outcome.INFRA_ERROR and tried.fault
    assert tried.fault.code == "service_not_started" and "no port for me" in tried.fault.message


def test_fixtures_that_only_the_program_names_are_shown(tmp_path: Path, env: Env) -> None:
    server = SERVER.replace('os.environ["GMAIL_FIXTURES"]', 'P(".") / "tasks" / "T1" / "fixtures/gmail/inbox.json"')
    server = "from pathlib import Path as P\n" + server
    task = TASK.replace("    env: {GMAIL_FIXTURES: tasks/T1/fixtures/gmail/inbox.json}\n", "")
    assert played(domain(write(tmp_path, task=task, server=server)), env, "budget", LOOK).reward == 1.0


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (("task_id: T1\n", ""), "task_id"),
        (("text:", "txt:"), "prompt.text"),
        (("name: gmail\n", "name: web_real\n"), "services[0]"),
        (("port: 9100\n", "port: 70000\n"), "services[0].port"),
        (("python mock", "curl mock"), "services[0].command"),
        (("localhost:9100/gmail/send", "evil.example/send"), "tool_endpoints[1].url"),
        (("localhost:9100/gmail/send", "localhost:9101/send"), "tool_endpoints[1].url"),
        (("name: gmail_send_message", "name: Bash"), "tools[1].name"),
        (("environment:", "user_agent: {enabled: true}\nenvironment:"), "user_agent"),
        (("environment:", "env_snapshot_files: [a]\nenvironment:"), "env_snapshot_files"),
        (("language: en", "attachments: [a.png]"), "prompt.attachments"),
    ],
)
def test_what_cannot_be_played_is_named_by_its_field(tmp_path: Path, change: tuple[str, str], field: str) -> None:
    made = domain(write(tmp_path, task=TASK.replace(*change, 1)))
    assert not list(made.tasks("eval"))
    (problem,) = made.problems
    assert problem.field == field  # type: ignore[attr-defined]


@pytest.mark.parametrize("place", ["", "tasks", "tasks/T1", "tasks/T1/task.yaml"])
def test_a_copy_is_named_by_any_of_its_folders(tmp_path: Path, place: str) -> None:
    assert [task.id for task in domain(write(tmp_path) / place).tasks("eval")] == ["claw_eval/T1"]


def test_a_folder_that_is_no_copy_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not in a copy of Claw-Eval's repository"):
        list(domain(tmp_path).tasks("eval"))
