"""`check`: a task set is sound only if the oracle, doing nothing and every wrong way end as they should."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from orchard_cli import domains
from orchard_cli.harness.loop import SENTINELS
from orchard_cli.launch.local import look
from orchard_cli.policy.policy import Policy
from orchard_cli.policy.scripted import ScriptedPolicy
from orchard_cli.task import Task
from orchard_cli.trajectory import Message


def says(name: str, *commands: str) -> ScriptedPolicy:
    return ScriptedPolicy.replies(name, [Message("assistant", f"```bash\n{c}\n```") for c in commands])


def checked(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], **changes: Any) -> tuple[bool, str]:
    domain = domains.load("echo").Domain
    for name, value in changes.items():
        monkeypatch.setattr(domain, name, value, raising=False)
    ok = look("echo", "check", ["tasks.limit=1"])
    return ok, " ".join(capsys.readouterr().out.split())


def test_a_sound_set_passes(echo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    ok, out = checked(monkeypatch, capsys)
    assert ok and "2 │ 2 │ 0" in out


def test_an_oracle_that_fails_is_named(
    echo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def script(self: object, task: Task, *, seed: int, error_rate: float) -> Policy:
        return says("script", f"echo {SENTINELS[0]}")

    ok, out = checked(monkeypatch, capsys, script=script)
    assert not ok and "the oracle scores 0.0" in out


def test_doing_nothing_must_not_pay(
    echo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def noop(self: object, task: Task) -> Policy:
        return says("noop", f"echo {task.hidden['word']} > answer.txt", f"echo {SENTINELS[0]}")

    ok, out = checked(monkeypatch, capsys, noop=noop)
    assert not ok and "doing nothing scores 1.0" in out


@pytest.mark.parametrize(("word", "sound"), [("other", True), ("{right}", False)])
def test_a_wrong_way_must_not_solve_it(
    echo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], word: str, sound: bool
) -> None:
    def wrong(self: object, task: Task) -> Sequence[Policy]:
        said = word.format(right=task.hidden["word"])
        return [says("guess", f"echo {said} > answer.txt", f"echo {SENTINELS[0]}")]

    ok, out = checked(monkeypatch, capsys, wrong=wrong)
    assert ok is sound and ("a wrong way, guess, solves it" in out) is not sound


def test_the_oracle_is_not_held_to_a_policys_step_limit(
    echo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def script(self: object, task: Task, *, seed: int, error_rate: float) -> Policy:
        slow = ["true"] * 12
        return says("script", *slow, f"echo {task.hidden['word']} > answer.txt", f"echo {SENTINELS[0]}")

    ok, out = checked(monkeypatch, capsys, script=script)
    assert ok, out
