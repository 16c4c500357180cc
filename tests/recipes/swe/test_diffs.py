"""Diffs cut by file, whatever their lines look like."""

import subprocess
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from orchard_cli.recipes.swe.diffs import sections


def _git(root: Path, *words: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=b", "-c", "core.autocrlf=false", *words]
    return subprocess.run(command, cwd=root, capture_output=True, check=True).stdout.decode()


def test_every_kind_of_change_is_one_section_with_its_names(tmp_path: Path) -> None:
    (tmp_path / "gone.txt").write_text("a\n")
    (tmp_path / "old.txt").write_text("one\ntwo\nthree\nfour\n")
    (tmp_path / "run.sh").write_text("x\n")
    (tmp_path / "sql.txt").write_text("-- one\n-- two\n")
    _git(tmp_path, "init", "-q")
    _git(tmp_path, "add", "-A")
    _git(tmp_path, "commit", "-q", "-m", "x")
    (tmp_path / "gone.txt").unlink()
    (tmp_path / "old.txt").rename(tmp_path / "new.txt")
    (tmp_path / "run.sh").chmod(0o755)
    (tmp_path / "sql.txt").write_text("++ one\f\n")
    (tmp_path / "with space é.txt").write_text("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n")
    (tmp_path / "empty").touch()
    _git(tmp_path, "add", "-A")
    diff = _git(tmp_path, "diff", "--cached", "-M")
    found = list(sections(diff))
    assert "".join(s.text for s in found) == diff
    assert {s.paths: s.new for s in found} == {
        ("gone.txt",): False,
        ("old.txt", "new.txt"): False,
        ("run.sh",): False,
        ("sql.txt",): False,
        ("with space é.txt",): True,
        ("empty",): True,
    }


def test_a_plain_diff_without_git_headers_is_cut_too() -> None:
    one = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n--- old comment\n+++ new comment\n c\n"
    two = "--- /dev/null\n+++ b/y\n@@ -0,0 +1 @@\n+z\n\\ No newline at end of file\n"
    found = list(sections("some words\n" + one + two))
    assert [s.text for s in found] == [one, two]
    assert [(s.paths, s.new) for s in found] == [(("x",), False), (("y",), True)]


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet='-+ @d\n\\ab/\r\f1,"', max_size=200) | st.text(max_size=100))
def test_any_text_is_cut_without_failing_and_nothing_is_invented(text: str) -> None:
    joined = "".join(s.text for s in sections(text))
    assert text.endswith(joined)
