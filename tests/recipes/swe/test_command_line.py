"""`orchard swe check` as a process of its own, on tasks that cannot be had or measured."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.bad_input.cli import Ended, orchard

from .conftest import Index

PACKAGE = "shop 1.0 (shop-1.0.tar.gz)"


def check(index: Index, folder: Path, change: dict[str, Any]) -> Ended:
    (folder / "t.jsonl").write_text(json.dumps(index.row | change) + "\n")
    return orchard("swe", "check", "tasks=pypi", "tasks.path=t.jsonl", "--json", cwd=folder)


def failures(ended: Ended) -> dict[str, str]:
    assert "Traceback" not in ended.err + ended.out
    found: dict[str, str] = json.loads(ended.out)["failures"]
    return found


def test_a_sound_task_passes(index: Index, tmp_path: Path) -> None:
    ended = check(index, tmp_path, {})
    assert (ended.code, failures(ended)) == (0, {}), ended


def test_an_sdist_with_another_hash_is_named_with_both(index: Index, tmp_path: Path) -> None:
    ended = check(index, tmp_path, {"sdist_sha256": "0" * 64})
    why = f"oracle: infra_error: {PACKAGE}: expected sha256 {'0' * 64}, got {index.row['sdist_sha256']}"
    assert (ended.code, failures(ended)) == (1, {index.row["instance_id"]: why})


@pytest.mark.parametrize(("command", "said"), [("no-such-runner tests", "no-such-runner: command not found")])
def test_a_test_command_that_is_not_there_is_the_tasks_fault(
    index: Index, tmp_path: Path, command: str, said: str
) -> None:
    ended = check(index, tmp_path, {"test_cmd": command})
    why = failures(ended)[index.row["instance_id"]]
    assert ended.code == 1
    assert why.startswith("oracle: verifier_error: pypi__shop-1.0-1: the tests do not work without a diff either")
    assert said in why
