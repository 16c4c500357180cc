"""What a judge says beside what the world says: when an attempt is graded, and over a run's attempts."""

import json
from pathlib import Path
from typing import Any

import pytest
from orchard_cli.recipes.gui import Config
from orchard_cli.recipes.gui.judging import Judging

from orchard_cli.domain import Grade
from orchard_cli.errors import RunError
from orchard_cli.launch.local import look
from orchard_cli.outcome import Outcome
from orchard_cli.task import Task
from orchard_cli.trajectory import Message, Step, Trajectory
from orchard_cli.trajectory.store import Store

from .judges.conftest import Endpoint

TASKS = ["tasks=miniwob", "tasks.train=0", "tasks.eval=4", "tasks.families=[click-test]"]


def attempt(task: str, *, raw: float, judge: bool | None, stop: str = "submitted") -> Trajectory:
    verdict = {"judge": "webvoyager", "success": judge, "thought": "", "usage": {}, "details": {}}
    messages = (Message("user", "Click the button."), Message("assistant", 'done(response="yes")'))
    return Trajectory(
        id=f"eval/{task}/0",
        task_id=task,
        domain="gui",
        policy="p",
        harness="react",
        messages=messages,
        steps=(Step(1, 'done(response="yes")'),),
        outcome=Outcome.SOLVED if judge else Outcome.UNSOLVED,
        stop=stop,
        split="eval",
        stage="eval",
        reward=float(bool(judge)),
        artifact=json.dumps({"answer": "yes", "status": {"done": True, "raw": raw}}),
        grade={"judge": verdict} if judge is not None else {"raw": raw},
    )


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    monkeypatch.chdir(tmp_path)
    look("gui", "tasks", TASKS, json=True)
    tasks = [t["id"] for t in json.loads(capsys.readouterr().out)["tasks"]]
    with Store(tmp_path / "runs" / "gui" / "demo" / "eval" / "trajectories" / "p-t0.jsonl.zst") as store:
        store.append(attempt(tasks[0], raw=1, judge=True))
        store.append(attempt(tasks[1], raw=0, judge=True))
        store.append(attempt(tasks[2], raw=0, judge=None))
        store.append(attempt(tasks[3], raw=1, judge=False, stop="step_limit"))
        store.append(attempt("miniwob-of-another-run", raw=1, judge=True))
    return tmp_path


def agreed(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    assert look("gui", "agreement", [*TASKS, *words], json=True)
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["judges"]
    return found


def test_recorded_verdicts_are_compared_with_what_the_attempts_left(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (row,) = agreed(capsys)
    assert (row["judge"], row["true_positive"], row["false_positive"]) == ("webvoyager", 1, 1)
    assert row["false_negative"] + row["true_negative"] + row["lost"] == 0


def test_a_judge_that_is_chosen_is_asked_about_the_attempts_that_none_has_judged(
    run: Path, capsys: pytest.CaptureFixture[str], endpoint: Endpoint
) -> None:
    asks = ["domain.judge_model=m", f"domain.judge_base_url={endpoint.url}"]
    endpoint.answers = ["NOT SUCCESS"]
    (row,) = agreed(capsys, "domain.judge=webvoyager", *asks)
    assert (row["true_positive"], row["false_positive"], row["true_negative"]) == (1, 1, 1)
    assert len(endpoint.asked) == 1 and "Click the button." in endpoint.texts(0)
    endpoint.answers = ["hm"]
    (row,) = agreed(capsys, "domain.judge=agenttrek", *asks)
    assert (row["judge"], row["lost"], row["accuracy"]["value"]) == ("agenttrek", 3, None)


def test_a_run_without_attempts_has_nothing_to_compare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RunError, match="holds no attempts"):
        look("gui", "agreement", TASKS)


def test_a_judge_decides_where_it_is_chosen_and_the_world_is_heard_too(endpoint: Endpoint) -> None:
    asks = {"judge_model": "m", "judge_base_url": endpoint.url}
    state = {"answer": "yes", "actions": ["click(id=1)"], "shots": [{"text": "a page"}]}
    world = Grade(0.5, False, {"raw": 0.5})
    graded = Judging(Config(judge="webvoyager", **asks), "state")
    made = graded.grade(Task("t", "gui", "Click."), state, None, lambda: world)
    graded.close()
    assert (made.reward, made.solved) == (1.0, True)
    assert made.details["state"] == {"reward": 0.5, "solved": False, "raw": 0.5}
    assert made.details["judge"]["success"] is True
    by_itself = Judging(Config(), "state").grade(Task("t", "gui", "Click."), state, None, lambda: world)
    assert by_itself == world and len(endpoint.asked) == 1
