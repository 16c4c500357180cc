"""Task files as a user gives them to `swe tasks` and `swe check`: every bad line named, every good one kept."""

import json
from pathlib import Path
from typing import Any

import pytest

from .cli import Ended, orchard

ROW: dict[str, Any] = {
    "instance_id": "pypi__absent-1.0-1",
    "repo": "us/absent",
    "package": "orchard-absent-package",
    "base_version": "1.0",
    "sdist": "orchard_absent_package-1.0.tar.gz",
    "sdist_sha256": "a" * 64,
    "setup": [],
    "test_cmd": "python -m pytest",
    "problem_statement": "[red]It is broken.[/red]",
    "patch": "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n",
    "test_patch": "diff --git a/test_x.py b/test_x.py\n--- a/test_x.py\n+++ b/test_x.py\n@@ -1 +1 @@\n-a\n+b\n",
    "FAIL_TO_PASS": ["test_x.py::test_a"],
    "PASS_TO_PASS": [],
}


def swe(verb: str, file: str, cwd: Path, *more: str) -> Ended:
    words = ["tasks=pypi", f"tasks.path={file}", *more]
    return orchard("swe", verb, *words, cwd=cwd, PIP_NO_INDEX="1", ORCHARD_CACHE=str(cwd / "cache"))


def write(path: Path, *lines: object) -> None:
    path.write_text("".join(x if isinstance(x, str) else json.dumps(x) + "\n" for x in lines))


FORM = "one task a line in SWE-bench's schema"
USELESS = [
    ("none.jsonl", None),
    ("empty.jsonl", ""),
    ("text.jsonl", "hello\n"),
    ("folder.jsonl", None),
    ("wrong.parquet", None),
]


@pytest.mark.parametrize(("name", "text"), USELESS, ids=[u[0] for u in USELESS])
def test_a_file_without_a_task_is_refused(tmp_path: Path, name: str, text: str | None) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if text is not None:
        (tmp_path / name).write_text(text)
    elif name.startswith("folder"):
        (tmp_path / name).mkdir()
    elif name.endswith(".parquet"):
        pq.write_table(pa.table({"a": [1, 2]}), tmp_path / name)
    ended = swe("tasks", name, tmp_path)
    assert (ended.code, ended.out) == (1, ""), ended
    said = {
        "none.jsonl": "error: none.jsonl: no such file\n",
        "empty.jsonl": f"error: empty.jsonl is empty\n\nhint: {FORM}\n",
        "text.jsonl": "error: text.jsonl has no usable task (1 bad lines)\n\n"
        f"hint: {FORM}; first: text.jsonl:1: not JSON: ",
        "folder.jsonl": "error: folder.jsonl is a folder\n\nhint: tasks.path names one file of tasks\n",
        "wrong.parquet": "error: wrong.parquet has no usable task (2 bad lines)\n\n"
        f"hint: {FORM}; first: wrong.parquet:1: `instance_id`: is missing\n",
    }[name]
    assert said.rstrip("\n") in ended.err and "Traceback" not in ended.err


def test_tasks_names_the_bad_line_and_lists_the_good_ones(tmp_path: Path) -> None:
    huge = '{"instance_id": "' + "x" * (33 << 20) + '"}\n'
    write(tmp_path / "t.jsonl", ROW, "{broken\n", huge, ROW | {"instance_id": "second"})
    ended = swe("tasks", "t.jsonl", tmp_path)
    assert ended.code == 0
    assert "warning: t.jsonl:2: not JSON: " in ended.err
    assert "warning: t.jsonl:3: longer than 32 MiB" in ended.err
    assert "[red]It is broken.[/red]" in ended.out and "second" in ended.out
    found = json.loads(swe("tasks", "t.jsonl", tmp_path, "--json").out)
    assert [t["id"] for t in found["tasks"]] == [ROW["instance_id"], "second"]
    assert len(found["problems"]) == 2


def test_check_names_a_bad_line_and_an_sdist_that_is_not_there(tmp_path: Path) -> None:
    write(tmp_path / "t.jsonl", ROW, "{broken\n")
    ended = swe("check", "t.jsonl", tmp_path)
    assert ended.code == 1
    assert "warning: t.jsonl:2: not JSON: " in ended.err
    missing = "orchard-absent-package 1.0 (orchard_absent_package-1.0.tar.gz): pip could not download it"
    assert f"oracle: infra_error: {missing}" in ended.out
    assert "Traceback" not in ended.out + ended.err


def test_distill_stops_when_no_sdist_can_be_had(tmp_path: Path) -> None:
    write(tmp_path / "t.jsonl", ROW | {"split": "train"})
    ended = swe("distill", "t.jsonl", tmp_path, "distill.attempts=7")
    missing = "orchard-absent-package 1.0 (orchard_absent_package-1.0.tar.gz): pip could not download it"
    assert ended.code == 1
    start = "error: 20 of 20 attempts ended in infrastructure or verifier errors, the last one: " + missing
    assert start in ended.err and "Traceback" not in ended.err
    hint = "mend the cause, or allow more with distill.max_infra_rate; the same command goes on from here"
    assert ended.err.endswith(f"\n\nhint: {hint}\n")
