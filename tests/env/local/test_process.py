"""`isolation=process`: no isolation, the same behaviour otherwise."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchard_cli import schema
from orchard_cli.env import open_env
from orchard_cli.env.local.local import LocalEnv
from orchard_cli.env.sandbox import Sandbox, Spec
from orchard_cli.errors import SandboxError

from ..conftest import settled


@pytest.fixture
def plain_env() -> Iterator[LocalEnv]:
    with LocalEnv(isolation="process") as env:
        yield env
    assert not env.base.exists()


@pytest.fixture
def plain(plain_env: LocalEnv, tmp_path: Path) -> Iterator[Sandbox]:
    tree = tmp_path / "tree"
    (tree / "d").mkdir(parents=True)
    (tree / "a.txt").write_text("one\n")
    (tree / "d" / "b.txt").write_text("two\n")
    with plain_env.open(Spec(tree=tree)) as opened:
        yield opened
    assert (tree / "a.txt").read_text() == "one\n"


def test_only_by_name_and_honest_about_it(plain_env: LocalEnv) -> None:
    assert plain_env.describe()["isolation"] == "none" and plain_env.describe()["network"] == "host"
    named = open_env(schema.Env(isolation="process"))
    assert named.describe()["isolation"] == "none"
    named.close()


def test_tree_is_copied_and_diffed(plain_env: LocalEnv, plain: Sandbox, tmp_path: Path) -> None:
    assert plain.exec("pwd").stdout.decode().strip() == plain.workdir
    assert plain.diff() == ""
    plain.exec("echo three >>a.txt; rm d/b.txt; echo new >d/new; touch -r a.txt d")
    diff = plain.diff()
    assert "+three" in diff and "deleted file" in diff and "new file" in diff
    with plain_env.open(Spec(tree=tmp_path / "tree")) as other:
        other.patch(diff)
        assert other.diff() == diff


def test_files_and_fork(plain: Sandbox) -> None:
    plain.write("x/y", b"data")
    with plain.fork() as fork:
        fork.write("x/y", b"other")
        assert (plain.read("x/y"), fork.read("x/y"), fork.list("x")) == (b"data", b"other", ("y",))
        assert fork.workdir != plain.workdir


def test_home_and_temporary_files_are_the_sandbox_s_own(plain: Sandbox) -> None:
    said = plain.exec('echo x >"$HOME/f"; mktemp; echo "$HOME"').stdout.decode().split()
    base = str(Path(plain.workdir).parent)
    assert all(path.startswith(base) for path in said)


def test_timeout_and_close_find_those_that_left_the_session(plain: Sandbox) -> None:
    result = plain.exec("setsid sleep 71.5 & (setsid sleep 72.5 &); sleep 73.5", timeout_s=0.3)
    assert result.reason == "timeout"
    assert settled(lambda: sleepers("7[123].5"), 0) == 0
    assert len(plain.exec("setsid sleep 74.5 & echo ok").left_running) == 1
    plain.close()
    assert settled(lambda: sleepers("74.5"), 0) == 0


def sleepers(seconds: str) -> int:
    return len(subprocess.run(["pgrep", "-f", f"^sleep {seconds}$"], capture_output=True, text=True).stdout.split())


def test_faults_are_the_same(plain: Sandbox) -> None:
    for call, code in (
        (lambda: plain.read("nope"), "client.no_such_file"),
        (lambda: plain.exec("true", cwd="nope"), "client.no_such_directory"),
        (lambda: plain.patch("nonsense"), "patch_failed"),
    ):
        with pytest.raises(SandboxError) as caught:
            call()
        assert caught.value.fault.code == code


def test_another_environment_on_this_machine_is_left_alone(plain: Sandbox) -> None:
    """Both have a first sandbox; the end of one is not that of the other."""
    running = plain.start("read line; echo $line", stdin=None)
    with LocalEnv(isolation="process") as other, other.open(Spec()) as box:
        assert box.exec("true").ok
    running.write(b"alive\n")
    assert running.wait().stdout == b"alive\n"
