"""Task files: every bad line is named, every good one kept."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from orchard_cli.recipes.swe import instances
from orchard_cli.recipes.swe.instances import by_package, for_eval, read
from orchard_cli.recipes.swe.rows import MAX_LINE, Problem

from orchard_cli.errors import DataError
from orchard_cli.task import Task

ROW: dict[str, Any] = {
    "instance_id": "pypi__shop-1.0-1",
    "repo": "us/shop",
    "package": "shop",
    "base_version": "1.0",
    "sdist": "shop-1.0.tar.gz",
    "sdist_sha256": "a" * 64,
    "setup": ["pytest==8.3.5", "lxml[html] >= 5, < 6"],
    "test_cmd": "python -m pytest",
    "problem_statement": "It is broken.",
    "patch": "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n",
    "test_patch": "diff --git a/test_x.py b/test_x.py\n--- a/test_x.py\n+++ b/test_x.py\n@@ -1 +1 @@\n-a\n+b\n",
    "FAIL_TO_PASS": ["test_x.py::test_a"],
    "PASS_TO_PASS": '["test_x.py::test_b"]',
}
VERIFIED = {
    "instance_id": "astropy__astropy-12907",
    "repo": "astropy/astropy",
    "base_commit": "d16bfe05",
    "version": "4.3",
    "problem_statement": "Nested models.",
    "patch": ROW["patch"],
    "test_patch": ROW["test_patch"],
    "FAIL_TO_PASS": '["test_x.py::test_a"]',
    "PASS_TO_PASS": "[]",
    "hints_text": "",
    "difficulty": "<15 min fix",
}


def _write(tmp_path: Path, *rows: object, name: str = "tasks.jsonl") -> Path:
    path = tmp_path / name
    path.write_text("".join(r if isinstance(r, str) else json.dumps(r) + "\n" for r in rows))
    return path


def _read(path: Path) -> tuple[list[Task], list[Problem]]:
    problems: list[Problem] = []
    return list(read(path, for_eval, problems)), problems


def test_a_row_becomes_a_task_whose_answers_are_hidden(tmp_path: Path) -> None:
    ((task,), problems) = _read(_write(tmp_path, ROW | {"extra": {"any": 1}}))
    assert problems == []
    assert (task.id, task.prompt, task.family, task.split) == (ROW["instance_id"], "It is broken.", "shop", "eval")
    assert task.hidden["fail_to_pass"] == ["test_x.py::test_a"]
    assert task.hidden["pass_to_pass"] == ["test_x.py::test_b"]
    assert "patch" not in task.data and "test_patch" not in task.data


@pytest.mark.parametrize("name", ["t.jsonl", "t.json", "keyed.json", "t.parquet"])
def test_all_file_kinds_give_the_same_tasks(tmp_path: Path, name: str) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [ROW | {"PASS_TO_PASS": ["x::y"]}, ROW | {"instance_id": "two", "PASS_TO_PASS": []}]
    path = tmp_path / name
    if name == "t.jsonl":
        _write(tmp_path, "\ufeff", *rows, "\n", name=name)
    elif name == "t.json":
        path.write_text(json.dumps(rows))
    elif name == "keyed.json":
        path.write_text(
            json.dumps({r["instance_id"]: {k: v for k, v in r.items() if k != "instance_id"} for r in rows})
        )
    else:
        pq.write_table(pa.Table.from_pylist(rows), path)
    tasks, problems = _read(path)
    assert problems == []
    assert tasks == _read(_write(tmp_path, *rows, name="plain.jsonl"))[0]


@pytest.mark.parametrize(
    ("change", "field", "message"),
    [
        ({"instance_id": None}, "instance_id", "is missing"),
        ({"instance_id": "../../etc"}, "instance_id", "'../../etc' is not of the form expected"),
        ({"problem_statement": " "}, "problem_statement", "is empty"),
        ({"problem_statement": 3}, "problem_statement", "is not text but int"),
        ({"patch": "a\0b"}, "patch", "holds a NUL character"),
        ({"FAIL_TO_PASS": "test_a"}, "FAIL_TO_PASS", "is text, but not a JSON list"),
        ({"FAIL_TO_PASS": []}, "FAIL_TO_PASS", "names no test"),
        ({"PASS_TO_PASS": [1]}, "PASS_TO_PASS", "is not a list of test ids"),
        ({"test_cmd": None}, "test_cmd", "is missing"),
        ({"sdist": "../x.tar.gz"}, "sdist", "is not of the form expected"),
        ({"sdist_sha256": "abc"}, "sdist_sha256", "is not of the form expected"),
        ({"package": "-r/etc/passwd"}, "package", "is not of the form expected"),
        ({"setup": ["--index-url=http://evil"]}, "setup", "is not a plain requirement"),
        ({"setup": ["a @ file:///x"]}, "setup", "is not a plain requirement"),
        ({"setup": "pytest"}, "setup", "is not a list of requirements"),
        ({"split": "holdout"}, "split", "'holdout' is neither train nor one of"),
        ({"repo": "swesmith/x__y.1"}, "patch", "this is the bug, not the fix"),
    ],
)
def test_a_bad_field_is_named_with_file_and_line(
    tmp_path: Path, change: dict[str, Any], field: str, message: str
) -> None:
    path = _write(tmp_path, ROW | {"instance_id": "good"}, ROW | change)
    tasks, (problem,) = _read(path)
    assert [t.id for t in tasks] == ["good"]
    assert (problem.file, problem.line, problem.field) == (str(path), 2, field)
    assert message in problem.message
    assert str(problem).startswith(f"{path}:2: `{field}`: ")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{broken\n", "not JSON: "),
        ("[1]\n", "a task is an object, not a list"),
        ("null\n", "a task is an object, not null"),
        ("[" * 100_000 + "\n", "not JSON: "),
        ('{"a": "' + "x" * MAX_LINE + '"}\n', "longer than 32 MiB"),
    ],
)
def test_a_line_that_is_no_object_is_named_and_the_others_are_kept(tmp_path: Path, line: str, message: str) -> None:
    tasks, (problem,) = _read(_write(tmp_path, ROW, line, ROW | {"instance_id": "last"}))
    assert [t.id for t in tasks] == [ROW["instance_id"], "last"]
    assert problem.line == 2
    assert problem.message.startswith(message)


def test_bytes_that_are_not_text_are_named(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b'{"instance_id": "\xff"}\n' + json.dumps(ROW).encode())
    tasks, (problem,) = _read(path)
    assert len(tasks) == 1 and problem.line == 1


VALUES = st.none() | st.text(max_size=5) | st.integers() | st.lists(st.text(max_size=3), max_size=2)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.binary(max_size=60)
    | st.builds(lambda changes: json.dumps(ROW | changes).encode(), st.dictionaries(st.sampled_from(list(ROW)), VALUES))
)
def test_whatever_a_line_holds_it_is_a_task_or_a_problem(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(line.replace(b"\n", b" ") + b"\n" + json.dumps(ROW | {"instance_id": "good"}).encode())
    tasks, problems = _read(path)
    assert len(tasks) + len(problems) <= 2
    assert tasks[-1].id == "good"


def test_the_second_of_two_equal_ids_is_named(tmp_path: Path) -> None:
    tasks, (problem,) = _read(_write(tmp_path, ROW, ROW))
    assert len(tasks) == 1
    assert str(problem).endswith(":2: `instance_id`: pypi__shop-1.0-1 is on line 1 already")


def test_a_file_without_a_good_line_is_an_error_that_shows_the_first_bad_one(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"has no usable task \(2 bad lines\)") as caught:
        _read(_write(tmp_path, "x\n", "y\n"))
    assert "tasks.jsonl:1: not JSON" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("t.jsonl", b"", "is empty"),
        ("t.json", b"{", "not JSON"),
        ("t.json", b"[]", "is empty"),
        ("t.parquet", b"PAR1 no", "not readable as Parquet"),
        ("t.csv", b"a,b", "cannot tell what this file is"),
    ],
)
def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(DataError, match=message):
        _read(path)


def test_a_missing_file_and_a_folder_are_errors(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        _read(tmp_path / "none.jsonl")
    with pytest.raises(DataError, match="is a folder"):
        _read(tmp_path)


def test_no_package_is_in_both_splits(tmp_path: Path) -> None:
    rows = [ROW | {"instance_id": f"{p}-{i}", "package": p} for p in map(str, range(1, 40)) for i in range(3)]
    tasks = list(read(_write(tmp_path, *rows), by_package, []))
    train, evaluation = ({t.family for t in tasks if t.split == s} for s in ("train", "eval"))
    assert train and evaluation and not train & evaluation


def test_a_split_column_decides(tmp_path: Path) -> None:
    rows = [ROW | {"instance_id": s, "split": s} for s in ("train", "test", "dev")]
    assert [t.split for t in read(_write(tmp_path, *rows), by_package, [])] == ["train", "eval", "eval"]


def test_a_row_of_swe_bench_verified_names_its_image_and_tests(tmp_path: Path) -> None:
    ((task,), problems) = _read(_write(tmp_path, VERIFIED))
    assert problems == []
    assert task.data["image"] == "swebench/sweb.eval.x86_64.astropy_1776_astropy-12907:latest"
    assert task.data["workdir"] == "/testbed"
    assert task.hidden["test_cmd"].endswith("pytest -rA --color=no -p no:cacheprovider test_x.py")
    assert task.hidden["report"] == "pytest"


def test_a_row_names_its_own_image_and_script(tmp_path: Path) -> None:
    own = VERIFIED | {"repo": "any/thing", "image_name": "me/it:1", "eval_script": "run", "workdir": "/it"}
    ((task,), _) = _read(_write(tmp_path, own))
    assert (task.data["image"], task.data["workdir"], task.hidden["eval_script"]) == ("me/it:1", "/it", "run")


def test_django_tests_are_named_as_its_runner_wants_them(tmp_path: Path) -> None:
    patch = VERIFIED["test_patch"].replace("test_x.py", "tests/forms/test_y.py")
    ((task,), _) = _read(_write(tmp_path, VERIFIED | {"repo": "django/django", "test_patch": patch}))
    assert task.hidden["test_cmd"].endswith("--parallel 1 forms.test_y")
    assert task.hidden["report"] == "django"


def test_an_unknown_repository_needs_a_test_command(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        _read(_write(tmp_path, VERIFIED | {"repo": "any/thing"}))
    assert "`test_cmd`: is missing, as is `eval_script`" in caught.value.hint


def test_the_real_set_is_read_whole() -> None:
    path = Path(__file__).parents[4] / "shared/data/swe_pypi/public.jsonl"
    if not path.exists():
        pytest.skip("the set is not beside this checkout")
    problems: list[Problem] = []
    tasks = list(read(path, by_package, problems))
    assert (len(tasks), problems) == (42, [])
    assert {instances.by_package({"package": t.family}) == t.split for t in tasks} == {True}
