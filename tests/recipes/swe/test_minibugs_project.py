"""A task's files: the directory that sandboxes share, and the runner of its tests."""

import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from orchard_cli.recipes.swe.minibugs import generate, tree
from orchard_cli.recipes.swe.minibugs.project import HIDDEN_COMMAND, RUNNER_TEXT, TEST_COMMAND

from orchard_cli.errors import DataError
from orchard_cli.task import Task

TESTS = """\
from m import f
from t import eq


def test_good():
    eq(f(1), 1)


def test_bad():
    eq(f(1), 2)


def test_worse():
    eq(f(None), 2)
"""


def task(seed: int = 0) -> Task:
    return next(generate("train", 1, seed))


def with_files(files: dict[str, str]) -> Task:
    return msgspec.structs.replace(task(), data={"files": files})


def run(folder: Path, command: str = TEST_COMMAND) -> tuple[int, str, dict[str, str]]:
    """Exit status, output and report of a test run."""
    path = folder / "report.json"
    done = subprocess.run(
        command.split(), cwd=folder, env={**os.environ, "TASK_REPORT": str(path)}, capture_output=True, text=True
    )
    return done.returncode, done.stdout, json.loads(path.read_text()) if path.exists() else {}


def project(folder: Path, module: str) -> Path:
    for name, text in {"m.py": module, "tests.py": TESTS, "t.py": RUNNER_TEXT}.items():
        (folder / name).write_text(text)
    return folder


def test_the_directory_holds_exactly_the_files(tmp_path: Path) -> None:
    made = tree(task(), tmp_path)
    assert {p.name: p.read_text() for p in made.iterdir()} == task().data["files"]


def test_the_same_files_share_a_directory_and_others_do_not(tmp_path: Path) -> None:
    assert tree(task(), tmp_path) == tree(task(), tmp_path)
    assert tree(task(), tmp_path) != tree(task(1), tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


def test_many_may_ask_at_once_and_nothing_is_left_over(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = set(pool.map(lambda _: tree(task(), tmp_path), range(32)))
    assert list(tmp_path.iterdir()) == list(made)


@pytest.mark.parametrize("path", ["../out.py", "/out.py", "a/../../out.py", ""])
def test_a_file_outside_the_project_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(DataError, match="data.files names"):
        tree(with_files({path: "x"}), tmp_path / "cache")
    assert not list(tmp_path.rglob("out.py"))


def test_the_runner_names_what_does_not_pass_and_reports_a_status_for_every_test(tmp_path: Path) -> None:
    code, output, report = run(project(tmp_path, "def f(x):\n    return x + 0\n"))
    assert code == 1
    assert output.splitlines() == [
        "FAILED test_bad: got 1, want 2",
        "ERROR test_worse: TypeError",
        "1 passed, 1 failed, 1 error",
    ]
    assert report == {"test_good": "passed", "test_bad": "failed", "test_worse": "error"}


def test_a_module_that_does_not_load_passes_nothing(tmp_path: Path) -> None:
    for module in ("def f(:\n", "raise SystemExit(0)\n", "import nothing_like_it\n"):
        code, output, report = run(project(tmp_path, module))
        assert code == 1
        assert output.startswith("ERROR tests: ")
        assert report == {"tests": "error"}


def test_a_module_that_ends_the_process_leaves_no_report(tmp_path: Path) -> None:
    assert run(project(tmp_path, "import os\nos._exit(0)\n")) == (0, "", {})


def test_a_float_is_not_taken_for_a_whole_number(tmp_path: Path) -> None:
    assert run(project(tmp_path, "def f(x):\n    return 1.0\n"))[2]["test_good"] == "failed"


def test_the_hidden_command_heeds_no_python_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "m.py").write_text("def f(x):\n    return 2\n")
    monkeypatch.setenv("PYTHONPATH", str(other))
    monkeypatch.setenv("PYTHONOPTIMIZE", "2")
    assert run(project(tmp_path, "def f(x):\n    return 1\n"), HIDDEN_COMMAND)[2]["test_good"] == "passed"


def test_the_report_cannot_be_found_by_the_code_under_test(tmp_path: Path) -> None:
    module = "import os\nprint(os.environ.get('TASK_REPORT', 'none'))\ndef f(x):\n    return x\n"
    assert run(project(tmp_path, module))[1].startswith("none\n")


def test_nothing_is_left_in_the_project_by_a_test_run(tmp_path: Path) -> None:
    subprocess.run(TEST_COMMAND.split(), cwd=project(tmp_path, "def f(x):\n    return x\n"), capture_output=True)
    assert {p.name for p in tmp_path.iterdir()} == {"m.py", "tests.py", "t.py"}
