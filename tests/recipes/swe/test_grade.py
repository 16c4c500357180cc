"""Grading in real sandboxes: whose fault it is when hidden tests do not pass."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from orchard_cli.recipes.swe import Config, Domain

from orchard_cli import schema
from orchard_cli.env import open_env
from orchard_cli.env.sandbox import Env, Sandbox, Spec
from orchard_cli.errors import GradeError, SandboxError
from orchard_cli.task import Task

from .conftest import GOLD, Index


class Counting:
    """The local environment, with a count of what was opened."""

    def __init__(self) -> None:
        self.real = open_env(schema.Env())
        self.opened = 0

    def open(self, spec: Spec) -> Sandbox:
        self.opened += 1
        return self.real.open(spec)

    def describe(self) -> dict[str, object]:
        return self.real.describe()

    def close(self) -> None:
        self.real.close()


@pytest.fixture(scope="module")
def env() -> Iterator[Counting]:
    made = Counting()
    yield made
    made.close()


@pytest.fixture
def make(index: Index, tmp_path: Path) -> Any:
    """`make(**changes)` gives the domain and its one task, made from the row with changes."""

    def build(timeout_s: float = 60.0, **changes: object) -> tuple[Domain, Task]:
        path = tmp_path / "tasks.jsonl"
        path.write_text(json.dumps(index.row | {"split": "test"} | changes))
        tasks = schema.Tasks(kind="pypi", path=str(path))
        domain = Domain(Config(test_timeout_s=timeout_s), tasks, schema.Harness(prompt="full"), 0)
        return domain, next(domain.tasks("eval"))

    return build


def _diff(domain: Domain, task: Task, env: Env, script: str) -> str:
    """What an agent leaves who runs `script`."""
    with env.open(domain.spec(task)) as sandbox:
        done = sandbox.exec(script)
        assert done.ok, done.stderr
        return domain.export(task, sandbox)


FIX = "sed -i 's/-= p/+= p/' src/shop/__init__.py"


def test_the_reference_fix_is_solved_and_nothing_is_not(make: Any, env: Counting) -> None:
    domain, task = make()
    grade = domain.grade(task, GOLD, env)
    assert (grade.reward, grade.solved) == (1.0, True)
    assert grade.details == {"reason": "resolved", "fail_to_pass": [1, 1], "pass_to_pass": [1, 1], "failed": []}
    before = env.opened
    assert domain.grade(task, "", env).details == {"reason": "empty_patch"}
    assert env.opened == before


def test_an_edit_made_in_a_sandbox_is_exported_and_solved(make: Any, env: Counting) -> None:
    domain, task = make()
    diff = _diff(domain, task, env, f"{FIX} && PYTHONPATH=src python -m pytest -q tests && git status --short")
    assert "+        result += p" in diff
    assert diff.count("diff --git") == 1
    assert domain.grade(task, diff, env).solved


def test_a_wrong_fix_is_unsolved_and_says_which_tests_failed(make: Any, env: Counting) -> None:
    domain, task = make()
    grade = domain.grade(task, _diff(domain, task, env, "echo '# x' >> src/shop/names.py"), env)
    assert (grade.reward, grade.solved) == (0.0, False)
    assert grade.details["failed"] == ["tests/test_shop.py::test_total"]
    assert grade.details["pass_to_pass"] == [1, 1]


def test_a_diff_that_does_not_apply_is_unsolved(make: Any, env: Counting) -> None:
    domain, task = make()
    grade = domain.grade(task, GOLD.replace("result = 0", "result = 1"), env)
    assert (grade.solved, grade.details["reason"]) == (False, "patch_does_not_apply")


@pytest.mark.parametrize(
    "script",
    [
        "printf 'def total(prices:\\n' > src/shop/__init__.py",
        "printf 'import os; os._exit(0)\\n' > src/shop/__init__.py",
        "rm -r src",
        "rm -r tests && touch tests",
        "printf 'import os, signal; os.kill(-1, signal.SIGKILL)\\n' >> src/shop/names.py",
    ],
    ids=["syntax_error", "exits", "deleted", "file_for_folder", "kills_all"],
)
def test_code_that_keeps_the_tests_from_running_is_unsolved(make: Any, env: Counting, script: str) -> None:
    domain, task = make()
    grade = domain.grade(task, _diff(domain, task, env, script), env)
    assert (grade.reward, grade.solved) == (0.0, False)


def test_tests_that_never_end_are_unsolved_if_they_end_without_the_diff(make: Any, env: Counting) -> None:
    domain, task = make(timeout_s=8.0)
    diff = _diff(domain, task, env, "printf 'while True: pass\\n' >> src/shop/names.py")
    grade = domain.grade(task, diff, env)
    assert (grade.solved, grade.details["reason"]) == (False, "timeout")


def test_tests_that_never_end_without_the_diff_either_cannot_judge(make: Any, env: Counting) -> None:
    domain, task = make(timeout_s=1.0, test_cmd="sleep 30")
    with pytest.raises(GradeError) as caught:
        domain.grade(task, GOLD, env)
    assert caught.value.fault.code == "baseline.timeout"


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("no-such-command tests", "baseline.no_report"),
        ("python -m pytest -p no:cacheprovider no_such_folder", "baseline.no_report"),
        ("python -m pytest -p no:cacheprovider tests", "baseline.broken_before"),  # without src on the path
    ],
)
def test_a_test_command_that_does_not_work_is_a_verifier_error(
    make: Any, env: Counting, command: str, code: str
) -> None:
    domain, task = make(test_cmd=command)
    with pytest.raises(GradeError, match="the tests do not work without a diff either") as caught:
        domain.grade(task, GOLD, env)
    assert (caught.value.fault.code, caught.value.fault.attributable) == (code, "infra")


def test_hidden_tests_that_do_not_apply_are_a_verifier_error(make: Any, env: Counting) -> None:
    domain, task = make(test_patch=GOLD.replace("src/shop/__init__.py", "tests/test_shop.py"))
    with pytest.raises(GradeError) as caught:
        domain.grade(task, GOLD, env)
    assert caught.value.fault.code == "baseline.tests_do_not_apply"


CHEATS = {
    "edits the hidden test": "printf 'def test_total(): pass\\ndef test_name(): pass\\n' > tests/test_shop.py",
    "conftest": (
        "printf 'import pytest\\n@pytest.hookimpl(hookwrapper=True)\\ndef pytest_runtest_makereport(item, call):\\n"
        "    out = yield\\n    out.get_result().outcome = \"passed\"\\n' > conftest.py"
    ),
    "own pytest": (
        "printf 'import json, os, sys\\njson.dump({\"tests/test_shop.py::test_total\": \"passed\","
        " \"tests/test_shop.py::test_name\": \"passed\"}, open(os.environ[\"TASK_REPORT\"], \"w\"))\\n"
        "os._exit(0)\\n' > pytest.py"
    ),
    "writes the report at exit": (
        "printf 'import atexit, json, os\\nP = os.environ.get(\"TASK_REPORT\")\\n"
        "atexit.register(lambda: P and json.dump({\"tests/test_shop.py::test_total\": \"passed\","
        " \"tests/test_shop.py::test_name\": \"passed\"}, open(P, \"w\")))\\nNAME = \"shop\"\\n' > src/shop/names.py"
    ),
    "reads the variable of the first process": (
        "printf 'import json, glob, os\\nfor f in glob.glob(\"/proc/[0-9]*/environ\"):\\n"
        "  try:\\n    for v in open(f).read().split(chr(0)):\\n      if v.startswith(\"TASK_REPORT=\"):\\n"
        "        json.dump({\"tests/test_shop.py::test_total\": \"passed\","
        " \"tests/test_shop.py::test_name\": \"passed\"}, open(v[12:], \"w\")); os._exit(0)\\n"
        "  except OSError: pass\\nNAME = \"shop\"\\n' > src/shop/names.py"
    ),
}  # fmt: skip


@pytest.mark.parametrize("script", CHEATS.values(), ids=CHEATS.keys())
def test_a_diff_that_bends_the_tests_instead_of_the_code_is_unsolved(make: Any, env: Counting, script: str) -> None:
    domain, task = make()
    assert not domain.grade(task, _diff(domain, task, env, script), env).solved


def test_what_was_left_out_is_told(make: Any, env: Counting) -> None:
    domain, task = make()
    grade = domain.grade(task, _diff(domain, task, env, f"{FIX}; echo 'x = 1' > conftest.py"), env)
    assert (grade.solved, grade.details["left_out"]) == (True, ["conftest.py"])


def test_equal_diffs_are_graded_once_also_by_many_threads(make: Any, env: Counting) -> None:
    domain, task = make()
    before = env.opened
    with ThreadPoolExecutor(4) as pool:
        grades = list(pool.map(lambda _: domain.grade(task, GOLD, env), range(8)))
    assert env.opened == before + 1
    assert {g.solved for g in grades} == {True}


def test_a_task_that_needs_an_image_says_so_when_it_is_opened(index: Index, tmp_path: Path, env: Counting) -> None:
    row = {k: v for k, v in index.row.items() if k not in ("sdist", "sdist_sha256", "setup", "package")}
    path = tmp_path / "verified.jsonl"
    path.write_text(json.dumps(row))
    tasks = schema.Tasks(kind="swebench", path=str(path))
    domain = Domain(Config(), tasks, schema.Harness(prompt="full"), 0)
    (task,) = domain.tasks("eval")
    with pytest.raises(SandboxError, match="swebench/sweb.eval.x86_64.pypi_1776_shop-1.0-1:latest") as caught:
        env.open(domain.spec(task))
    assert "env.isolation=container" in caught.value.hint
    assert (caught.value.fault.attributable, caught.value.fault.retry) == ("client", "never")


def test_the_generated_tasks_are_graded_by_their_own_runner(env: Counting) -> None:
    tasks = schema.Tasks(kind="minibugs", train=0, eval=2)
    domain = Domain(Config(), tasks, schema.Harness(), 0)
    for task in domain.tasks("eval"):
        assert domain.grade(task, task.hidden["patch"], env).solved
        in_the_way = _diff(domain, task, env, "rm *.py && mkdir t.py && touch t.py/x")
        assert not domain.grade(task, in_the_way, env).solved
        assert not domain.grade(task, _diff(domain, task, env, "echo '# x' > note.py"), env).solved
