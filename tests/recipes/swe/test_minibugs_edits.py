"""Edits as sed commands: the smallest one, and that sed does what we think it does."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from orchard_cli.recipes.swe.minibugs import generate
from orchard_cli.recipes.swe.minibugs.edits import LineEdit, parse, smallest

LINES = st.lists(
    st.sampled_from(["x", "xs", " ", " > ", ">=", "1", "(", "[0]", ".", "*", "/", "//", "return", "not "]), min_size=1
)


@pytest.mark.parametrize(
    ("before", "after", "command"),
    [
        ("    if x > n:", "    if x >= n:", "sed -i '3s/>/>=/' a.py"),
        ("    return n", "    return m", "sed -i '3s/ n/ m/' a.py"),
        ("    return x / n", "    return x // n", "sed -i '3s|/|//|' a.py"),
        ("    return x * n", "    return x + n", "sed -i '3s/\\*/+/' a.py"),
        ("    return xs[0]", "    return xs[-1]", "sed -i '3s/0/-1/' a.py"),
        ("    if not x:", "    if x:", "sed -i '3s/not //' a.py"),
        ("        return out", "    return out", "sed -i '3s/        return/    return/' a.py"),
    ],
)
def test_the_command_is_short(before: str, after: str, command: str) -> None:
    assert smallest(3, before, after).command("a.py") == command


@given(LINES, LINES)
def test_the_smallest_edit_makes_the_line_and_survives_being_written(one: list[str], other: list[str]) -> None:
    before, after = "".join(one), "".join(other)
    if before == after or not before.strip():
        return
    edit = smallest(1, before, after)
    assert edit.apply([before]) == [after]
    assert parse(edit.command("a.py")) == (edit, "a.py")


def test_sed_does_what_the_edit_says(tmp_path: Path) -> None:
    for task in generate("train", 28, 11):
        path = task.hidden["script"]["file"]
        file = tmp_path / path
        edits = [task.hidden["script"][k] for k in ("fix", "astray")] + task.hidden["script"]["slips"]
        for edit in map(LineEdit._make, edits):
            file.write_text(task.data["files"][path])
            subprocess.run(["bash", "-c", edit.command(path)], cwd=tmp_path, check=True)
            assert file.read_text().splitlines() == edit.apply(task.data["files"][path].splitlines())


@pytest.mark.parametrize(
    "command", ["sed -i 's/a/b/' a.py", "sed -n '3s/a/b/' a.py", "sed -i '3s/a/b/' a.py; ls", "cat a.py"]
)
def test_other_commands_are_no_edits(command: str) -> None:
    assert parse(command) is None


def test_an_edit_of_a_line_that_is_not_there_changes_nothing() -> None:
    assert LineEdit(9, "a", "b").apply(["a"]) == ["a"]
