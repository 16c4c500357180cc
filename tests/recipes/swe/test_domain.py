"""What the domain offers: its task sets, what it refuses, and the two halves of `check`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from orchard_cli.recipes.swe import Config, Domain

from orchard_cli import schema
from orchard_cli.env import open_env
from orchard_cli.env.sandbox import Env
from orchard_cli.errors import ConfigError, DataError
from orchard_cli.outcome import Outcome
from orchard_cli.policy.policy import Sampling
from orchard_cli.rollout import Job, attempt

from .conftest import Index

FULL = schema.Harness(prompt="full", max_steps=20)


@pytest.fixture(scope="module")
def env() -> Iterator[Env]:
    made = open_env(schema.Env())
    yield made
    made.close()


def _file(index: Index, tmp_path: Path, *changes: dict[str, Any], bad: str = "") -> str:
    path = tmp_path / "tasks.jsonl"
    path.write_text("".join(json.dumps(index.row | c) + "\n" for c in changes) + bad)
    return str(path)


def _domain(harness: schema.Harness = FULL, **tasks: Any) -> Domain:
    return Domain(Config(), schema.Tasks(**tasks), harness, 0)


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ({"kind": "minibug"}, "tasks.kind: swe has no `minibug`"),
        ({"kind": "pypi"}, "tasks=pypi needs a file"),
        ({"kind": "swebench", "path": "x", "eval": 3}, "tasks.train and tasks.eval are not read by tasks=swebench"),
        ({"kind": "minibugs", "path": "x"}, "tasks.path is not read by tasks=minibugs"),
    ],
)
def test_a_setting_that_the_task_set_does_not_read_is_an_error(tasks: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        _domain(**tasks)
    assert str(caught.value).startswith(message)
    assert caught.value.hint


def test_limit_and_only_choose_from_each_split(index: Index, tmp_path: Path) -> None:
    rows = [{"instance_id": f"{split}-{i}", "split": split} for split in ("train", "test") for i in range(3)]
    path = _file(index, tmp_path, *rows)
    assert [t.id for t in _domain(kind="pypi", path=path, limit=2).tasks("train")] == ["train-0", "train-1"]
    chosen = _domain(kind="pypi", path=path, only=["test-2"])
    assert [t.id for s in ("train", "eval") for t in chosen.tasks(s)] == ["test-2"]  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="there is no task test-9"):
        list(_domain(kind="pypi", path=path, only=["test-9"]).tasks("eval"))


def test_bad_lines_are_told_and_good_ones_kept(index: Index, tmp_path: Path) -> None:
    domain = _domain(kind="pypi", path=_file(index, tmp_path, {"split": "test"}, bad="{\n"))
    assert [t.id for t in domain.tasks("eval")] == [index.row["instance_id"]]
    assert [(p.line, p.message[:8]) for p in domain.problems] == [(2, "not JSON")]


def test_a_missing_file_is_a_data_error() -> None:
    with pytest.raises(DataError, match="no such file"):
        list(_domain(kind="pypi", path="/no/such.jsonl").tasks("eval"))


def test_an_unknown_prompt_names_those_that_there_are(index: Index, tmp_path: Path) -> None:
    domain = _domain(schema.Harness(prompt="fancy"), kind="pypi", path=_file(index, tmp_path, {"split": "test"}))
    with pytest.raises(ConfigError) as caught:
        domain.harness(next(domain.tasks("eval")))
    assert "full" in caught.value.hint


@pytest.mark.parametrize("format", ["fence", "tool"])
def test_the_oracle_is_solved_and_doing_nothing_is_not(index: Index, tmp_path: Path, env: Env, format: str) -> None:
    harness = schema.Harness(prompt="full", max_steps=20, format=format)
    domain = _domain(harness, kind="pypi", path=_file(index, tmp_path, {"split": "test"}))
    (task,) = domain.tasks("eval")
    oracle = domain.script(task, seed=0, error_rate=0.0)
    solved = attempt(Job(task, oracle, Sampling(), "check", 0), domain, env)
    assert (solved.outcome, solved.reward, solved.fault) == (Outcome.SOLVED, 1.0, None)
    nothing = attempt(Job(task, domain.noop(task), Sampling(), "check", 1), domain, env)
    assert (nothing.outcome, nothing.reward) == (Outcome.UNSOLVED, 0.0)


def test_nothing_hidden_is_said_to_the_agent_or_lies_in_its_sandbox(index: Index, tmp_path: Path, env: Env) -> None:
    domain = _domain(kind="pypi", path=_file(index, tmp_path, {"split": "test"}))
    (task,) = domain.tasks("eval")
    seen = attempt(Job(task, domain.noop(task), Sampling(), "check", 0), domain, env)
    said = "".join(m.content for m in seen.messages)
    assert task.prompt in said and "test_total" not in said and "+=" not in said
    with env.open(domain.spec(task)) as sandbox:
        found = sandbox.exec('grep -rl "assert total" . /tmp "$VIRTUAL_ENV" 2>/dev/null')
        assert found.stdout == b""
        assert sandbox.exec("git log --oneline | wc -l").stdout.strip() == b"1"


def test_an_sdist_that_cannot_be_had_is_infrastructure(
    index: Index, tmp_path: Path, env: Env, monkeypatch: pytest.MonkeyPatch
) -> None:
    domain = _domain(kind="pypi", path=_file(index, tmp_path, {"split": "test", "sdist_sha256": "0" * 64}))
    (task,) = domain.tasks("eval")
    lost = attempt(Job(task, domain.noop(task), Sampling(), "check", 0), domain, env)
    assert (lost.outcome, lost.reward) == (Outcome.INFRA_ERROR, None)
    assert lost.fault is not None and lost.fault.code == "sdist_hash"


@pytest.mark.slow
@pytest.mark.network
def test_every_task_of_the_real_set_is_solved_by_its_fix_and_not_by_nothing(env: Env, monkeypatch: Any) -> None:
    path = Path(__file__).parents[4] / "shared/data/swe_pypi/public.jsonl"
    if not path.exists():
        pytest.skip("the set is not beside this checkout")
    monkeypatch.undo()
    domain = _domain(kind="pypi", path=str(path))
    wrong = []
    for task in (t for s in ("train", "eval") for t in domain.tasks(s)):  # type: ignore[arg-type]
        oracle = domain.script(task, seed=0, error_rate=0.0)
        rewards = [
            attempt(Job(task, policy, Sampling(), "check", 0), domain, env).reward
            for policy in (oracle, domain.noop(task))
        ]
        if rewards != [1.0, 0.0]:
            wrong.append((task.id, rewards))
    assert wrong == []
