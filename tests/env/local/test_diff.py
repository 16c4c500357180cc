"""What changed, and that it can be applied again."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchard_cli.env.local.local import LocalEnv
from orchard_cli.env.sandbox import Sandbox, Spec
from orchard_cli.errors import SandboxError


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "source"
    (tree / "pkg" / "deep").mkdir(parents=True)
    (tree / "pkg" / "mod.py").write_text("a = 1\nb = 2\n")
    (tree / "pkg" / "deep" / "gone.txt").write_text("gone\n")
    (tree / "bare").write_text("no newline")
    (tree / "bin").write_bytes(bytes(range(256)))
    (tree / "run.sh").write_text("#!/bin/sh\n")
    (tree / "crlf").write_bytes(b"one\r\ntwo\r\n")
    (tree / "link").symlink_to("bare")
    return tree


def replayed(env: LocalEnv, tree: Path, diff: str) -> str:
    """The diff after it was applied to a fresh sandbox."""
    with env.open(Spec(tree=tree)) as fresh:
        fresh.patch(diff)
        return fresh.diff()


CHANGES = {
    "edit": "sed -i s/1/11/ pkg/mod.py",
    "new file": "mkdir -p x/y; echo hi >x/y/new",
    "new empty file": "touch empty",
    "delete": "rm pkg/mod.py",
    "delete a directory": "rm -r pkg",
    "delete and make again": "rm -r pkg; mkdir pkg; echo other >pkg/mod.py",
    "mode": "chmod +x run.sh",
    "mode and text": "chmod +x run.sh; echo exit >>run.sh",
    "binary": "printf '\\1\\0\\2' >bin",
    "not utf-8": "printf 'caf\\351\\n' >latin",
    "last newline lost": "printf x >pkg/mod.py",
    "last newline won": "echo >>bare",
    "carriage returns": "printf 'three\\r\\n' >>crlf",
    "link changed": "ln -sfn /etc/shadow link",
    "file becomes directory": "rm bare; mkdir bare; echo in >bare/f",
    "directory becomes file": "rm -r pkg; echo file >pkg",
    "file becomes link": "ln -sfn / bare",
    "odd names": "touch 'sp ace' 'quo\"te' 'tab\tx' 'new\nline' \"$(printf '\\377')\" -- -dash '*?[x]' '\\back' é",
    "odd names not utf-8": "printf '\\351' >'*?[x]'; printf '\\351' >'quo\"te'; printf '\\351' >'new\nline'",
    "moved": "mv pkg moved",
    "looks like a diff": "printf 'diff --git a/x b/x\\n--- a/x\\n+++ b/x\\n-- \\n' >text",
}


@pytest.mark.parametrize("script", CHANGES.values(), ids=CHANGES.keys())
def test_diff_describes_the_change_and_applies_again(env: LocalEnv, tree: Path, script: str) -> None:
    with env.open(Spec(tree=tree)) as opened:
        assert opened.exec(script).ok
        diff = opened.diff()
    assert diff.startswith("diff --git ") and diff.encode()
    assert replayed(env, tree, diff) == diff


def test_diff_equals_what_git_says(env: LocalEnv, tree: Path, tmp_path: Path) -> None:
    script = "; ".join(CHANGES[name] for name in ("edit", "mode", "binary", "last newline won", "new file"))
    with env.open(Spec(tree=tree)) as opened:
        opened.exec(script)
        ours = opened.diff()
    repository = tmp_path / "repository"
    subprocess.run(["cp", "-a", tree, repository], check=True)
    commands = f"git init -q && git add -A && git commit -qm x && {script} && git add -A && git diff --cached --binary"
    who = {f"GIT_{role}_{what}": "x@y" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    quiet = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", **who}
    theirs = subprocess.run(["bash", "-c", commands], cwd=repository, env=quiet, capture_output=True, check=True)
    assert ours == theirs.stdout.decode()


def test_untouched_and_undone_changes_are_no_diff(env: LocalEnv, tree: Path) -> None:
    with env.open(Spec(tree=tree)) as opened:
        assert opened.diff() == ""
        opened.exec("touch pkg/mod.py; cp bin b2; mv b2 bin; echo x >t; rm t; chmod 600 run.sh; mkdir empty")
        assert opened.diff() == ""


def test_caches_and_repositories_are_left_out(env: LocalEnv, tree: Path) -> None:
    with env.open(Spec(tree=tree)) as opened:
        opened.exec("git init -q; mkdir pkg/__pycache__; echo x >pkg/__pycache__/m.pyc; echo x >m.pyc; mkfifo pipe")
        assert opened.diff() == ""


def test_attributes_and_configuration_inside_mean_nothing(env: LocalEnv, tree: Path) -> None:
    with env.open(Spec(tree=tree)) as opened:
        opened.exec("echo '* binary diff=evil filter=evil' >.gitattributes; sed -i s/1/11/ pkg/mod.py")
        opened.exec("git init -q; git config diff.evil.command 'touch /tmp/ran'; git config core.autocrlf true")
        assert "-a = 1\n+a = 11\n" in opened.diff()


def test_new_file_reads_as_git_writes_it(sandbox: Sandbox) -> None:
    sandbox.write("n.txt", b"hi\n")
    assert sandbox.diff() == (
        "diff --git a/n.txt b/n.txt\nnew file mode 100644\nindex 0000000..45b983b\n--- /dev/null\n+++ b/n.txt\n"
        "@@ -0,0 +1 @@\n+hi\n"
    )


def test_diff_of_hostile_tree_reads_nothing_of_the_host(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("host only")
    sandbox.exec(f"ln -s {tmp_path}/secret s; ln -s {tmp_path} d; ln -s /dev/zero z; mkfifo p; ln -s .. up")
    diff = sandbox.diff()
    assert "host only" not in diff and "new file mode 120000" in diff


def test_too_large_a_diff_is_the_workload_s_fault(sandbox: Sandbox) -> None:
    sandbox.exec("truncate -s 1T sparse")
    with pytest.raises(SandboxError) as caught:
        sandbox.diff()
    assert (caught.value.fault.code, caught.value.fault.attributable) == ("workload.diff_too_large", "model")
    assert sandbox.exec("echo ok").stdout == b"ok\n"


def test_a_link_that_no_diff_can_hold_is_a_typed_error(sandbox: Sandbox) -> None:
    sandbox.exec(["sh", "-c", r"ln -s $(printf '\377') odd; ln -s $(printf '\303\274') fine"])
    with pytest.raises(SandboxError, match="odd") as caught:
        sandbox.diff()
    assert (caught.value.fault.code, caught.value.fault.attributable) == ("workload.diff_not_text", "model")
    sandbox.exec("rm odd")
    assert "+\u00fc" in sandbox.diff()


PATCH = "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n-{}\n+1\n two\n"


def test_patch_is_applied(sandbox: Sandbox) -> None:
    sandbox.patch(PATCH.format("one"))
    assert sandbox.read("a.txt") == b"1\ntwo\n"
    sandbox.patch("")
    sandbox.patch(" \n")


@pytest.mark.parametrize(
    "bad",
    [
        PATCH.format("wrong"),
        PATCH.format("one") + "--- a/none\n+++ b/none\n@@ -1 +1 @@\n-x\n+y\n",
        PATCH.format("one").replace("a.txt", "../../etc/hosts"),
        "no diff at all\n",
        PATCH.format("one")[:-8],
    ],
    ids=["wrong text", "second file missing", "outside", "no diff", "cut off"],
)
def test_patch_that_does_not_fit_changes_nothing(sandbox: Sandbox, bad: str) -> None:
    with pytest.raises(SandboxError) as caught:
        sandbox.patch(bad)
    assert (caught.value.fault.code, caught.value.fault.effect) == ("patch_failed", "none")
    assert sandbox.diff() == ""


def test_patch_does_without_git(sandbox: Sandbox) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may delete git, even in its own sandbox")
    sandbox.exec("rm -f /usr/bin/git /usr/local/bin/git")
    with pytest.raises(SandboxError, match="does not apply"):
        sandbox.patch(PATCH.format("wrong"))
    sandbox.patch(PATCH.format("one"))
    assert sandbox.read("a.txt") == b"1\ntwo\n" and sandbox.list() == ("a.txt",)


NAMES = st.sampled_from(["a.txt", "b", "d/x", "d/y", "e/f/g"])
STEPS = st.lists(st.tuples(NAMES, st.none() | st.binary(max_size=40)), max_size=6)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_any_history_of_writes_and_deletes_replays(env: LocalEnv, tmp_path: Path, steps: list) -> None:
    tree = tmp_path / "any"
    (tree / "d").mkdir(parents=True, exist_ok=True)
    (tree / "a.txt").write_text("one\ntwo\n")
    (tree / "d" / "x").write_bytes(b"\x00\xff")
    with env.open(Spec(tree=tree)) as opened, env.open(Spec(tree=tree)) as fresh:
        for name, data in steps:
            if data is None:
                opened.exec(["rm", "-f", name])
            else:
                opened.write(name, data)
        fresh.patch(opened.diff())
        listing = "find . -type f -exec sha256sum {} + | sort"
        assert fresh.exec(listing).stdout == opened.exec(listing).stdout
