"""What of a diff is graded."""

import pytest
from orchard_cli.recipes.swe.admit import admit, clean, id_file


def _change(path: str, *, new: bool = False) -> str:
    mode = "new file mode 100644\n" if new else ""
    return f"diff --git a/{path} b/{path}\n{mode}--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-a\n+b\n"


@pytest.mark.parametrize(
    "path",
    ["tests/test_x.py", "conftest.py", "src/deep/conftest.py", "pytest.ini", "pyproject.toml", "src/sitecustomize.py"],
)
def test_changes_that_decide_what_the_tests_say_are_left_out(path: str) -> None:
    kept, left_out = admit(_change(path) + _change("src/a.py"), "", ["tests/test_x.py"])
    assert (kept, left_out) == (_change("src/a.py"), [path])


@pytest.mark.parametrize("path", ["pytest.py", "_pytest/x.py", "src/json/__init__.py", "random.py", "evil.pth"])
def test_new_modules_that_stand_in_for_others_are_left_out(path: str) -> None:
    assert admit(_change(path, new=True), "", []) == ("", [path])


@pytest.mark.parametrize("path", ["src/pkg/json.py", "pkg/types.py", "helper.py", "tests/extra.py"])
def test_other_new_files_are_graded(path: str) -> None:
    assert admit(_change(path, new=True), "", []) == (_change(path, new=True), [])


def test_what_the_reference_fix_touches_is_graded() -> None:
    both = _change("setup.cfg") + _change("tests/test_x.py")
    assert admit(both, both, ["tests/test_x.py"]) == (both, [])


def test_a_test_file_cannot_be_moved_away() -> None:
    move = (
        "diff --git a/tests/test_x.py b/old.py\nsimilarity index 100%\nrename from tests/test_x.py\nrename to old.py\n"
    )
    assert admit(move, "", ["tests/test_x.py"]) == ("", ["tests/test_x.py"])


def test_what_running_things_leaves_behind_is_no_part_of_the_result() -> None:
    litter = _change("src/__pycache__/a.cpython-311.pyc") + _change(".pytest_cache/v") + _change(".git/index")
    assert clean(litter + _change("src/a.py")) == _change("src/a.py")


def test_only_ids_of_test_files_name_a_file() -> None:
    assert id_file("tests/test_a.py::T::test_b[x::y]") == "tests/test_a.py"
    assert id_file("boltons/strutils.py::boltons.strutils.x") == ""
    assert id_file("test_x (forms.tests.T)") == ""
