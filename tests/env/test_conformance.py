"""What every place that opens sandboxes must do, whatever it is made of. Add one more by a line in `PLACES`.

The tests with names of defects are faults that were reproduced in other services: they must not come back.
"""

import hashlib
import io
import json
import os
import shlex
import tarfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from orchard_cli.env.agent.trees import LEFT_OUT
from orchard_cli.env.contained.choose import contained
from orchard_cli.env.local.local import LocalEnv
from orchard_cli.env.sandbox import Env, Sandbox, Spec
from orchard_cli.errors import ConfigError, SandboxError

from .conftest import settled, traces

PLACES = {
    "bwrap": lambda: LocalEnv(isolation="bwrap"),
    "process": lambda: LocalEnv(isolation="process"),
    "gvisor": lambda: contained("gvisor"),
    "container": lambda: contained("container"),
}


@pytest.fixture(scope="module", params=PLACES)
def place(request: pytest.FixtureRequest) -> Iterator[Env]:
    try:
        opened = PLACES[request.param]()
    except ConfigError as error:
        if request.param in ("gvisor", "container"):  # not every machine offers them
            pytest.skip(str(error))
        raise
    yield opened
    opened.close()


@pytest.fixture
def box(place: Env, tmp_path: Path) -> Iterator[Sandbox]:
    """A sandbox over a tree with one file, with an audit around it."""
    before = traces(place) if isinstance(place, LocalEnv) else None
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "a.txt").write_text("one\n")
    with place.open(Spec(tree=tree)) as opened:
        yield opened
    if isinstance(place, LocalEnv):
        assert settled(lambda: traces(place), before) == before


def sleepers(box: Sandbox, seconds: str) -> int:
    return len(box.exec(["pgrep", "-f", f"^sleep {seconds}$"]).stdout.split())


# -- defects of others


def test_timeout_keeps_container_alive(box: Sandbox) -> None:
    result = box.exec("echo before; sleep 51.25", timeout_s=0.2)
    assert (result.reason, result.stdout) == ("timeout", b"before\n")
    assert box.exec("echo alive").stdout == b"alive\n"


def test_background_child_returns_immediately(box: Sandbox) -> None:
    result = box.exec("sleep 52.25 & echo started", timeout_s=30)
    assert (result.reason, result.exit_code, result.stdout) == ("exited", 0, b"started\n")
    assert len(result.left_running) == 1


def test_login_env_keeps_traceback(box: Sandbox) -> None:
    result = box.exec("python3 -c 'import nope'", login=True)
    assert result.stderr.startswith(b"Traceback") and b"nope" in result.stderr


def test_login_env_is_read_once_and_comes_over_ours(box: Sandbox) -> None:
    profile = "echo noise; echo run >>~/runs; export FROM=profile PATH=/mine:$PATH"
    box.exec(f"echo {shlex.quote(profile)} >~/.bash_profile")
    for env in ({}, {"FROM": "call"}):
        result = box.exec("echo $FROM; echo $PATH", env=env, login=True)
        assert result.stdout.startswith(env.get("FROM", "profile").encode() + b"\n/mine:/")
    assert box.start("echo $FROM", login=True).wait(30).stdout == b"profile\n"
    assert box.exec("cat ~/runs; rm ~/runs ~/.bash_profile").stdout == b"run\n"
    assert box.exec("echo $FROM").stdout == b"\n"


def test_missing_cwd_is_an_error_and_not_the_root(box: Sandbox) -> None:
    with pytest.raises(SandboxError) as caught:
        box.exec("touch ran", cwd="no/such")
    assert caught.value.fault.code == "client.no_such_directory" and caught.value.fault.effect == "none"


def test_a_work_directory_that_the_workload_removed_is_its_own_doing(place: Env) -> None:
    """Where it can: elsewhere it is a mount."""
    with place.open(Spec()) as box:
        box.exec('rm -rf "$PWD"')
        if box.exec("true", cwd="/").ok and box.exec(["test", "-d", box.workdir], cwd="/").ok:
            assert box.exec("echo on").ok
            return
        calls = (lambda: box.exec("true"), lambda: box.read("x"), lambda: box.write("x", b""), box.diff)
        for call in (*calls, lambda: list(box.pack("."))):
            with pytest.raises(SandboxError) as caught:
                call()
            assert (caught.value.fault.code, caught.value.fault.attributable) == (
                "sandbox.broken_by_workload",
                "model",
            )


def test_command_longer_than_an_argument_may_be(box: Sandbox) -> None:
    assert box.exec(": '" + "x" * 1_000_000 + "'; echo ran").stdout == b"ran\n"


def test_exit_code_124_is_not_a_timeout(box: Sandbox) -> None:
    result = box.exec("exit 124")
    assert (result.reason, result.exit_code) == ("exited", 124)


def test_dangling_link_is_listed(box: Sandbox) -> None:
    box.exec("ln -s /no/such dangling")
    assert "dangling" in box.list()


def test_output_is_bounded_in_memory_and_counted(box: Sandbox) -> None:
    result = box.exec("head -c 100000000 /dev/zero", max_bytes=1000, timeout_s=60)
    assert (result.exit_code, len(result.stdout), result.stdout_bytes) == (0, 1000, 100_000_000)


def test_bytes_that_are_no_text_stay_what_they_are(box: Sandbox) -> None:
    data = bytes(range(256)) + "é".encode()[:1]
    box.write("f", data)
    assert box.exec("cat f").stdout == data == box.read("f")


def test_children_that_ignore_the_end_are_ended(box: Sandbox) -> None:
    box.exec("trap '' TERM; (trap '' TERM; exec sleep 53.25) & wait", timeout_s=0.1)
    assert settled(lambda: sleepers(box, "53.25"), 0) == 0


def test_long_running_server_does_not_hold_up_other_commands(box: Sandbox) -> None:
    with ThreadPoolExecutor(2) as pool:
        server = pool.submit(box.exec, "echo x >up; sleep 0.5; echo served", timeout_s=30)
        settled(lambda: "up" in box.list(), True)
        assert box.exec("echo beside").stdout == b"beside\n" and not server.done()
        assert server.result().stdout == b"served\n"


def test_patch_of_more_than_an_argument_applies(box: Sandbox) -> None:
    lines = "".join(f"+line {number} {'x' * 100}\n" for number in range(3000))
    box.patch(f"--- /dev/null\n+++ b/large.txt\n@@ -0,0 +1,3000 @@\n{lines}")
    assert box.exec("wc -l <large.txt").stdout.strip() == b"3000"


# -- commands


@pytest.mark.parametrize("words", [["a b", "", "'", '"', "$HOME", "new\nline", "*", "é", "\\"]])
def test_arguments_arrive_as_given(box: Sandbox, words: list[str]) -> None:
    assert box.exec(["printf", "%s\\0", *words]).stdout == b"".join(os.fsencode(w) + b"\0" for w in words)


@pytest.mark.parametrize("size", [0, 1, 65_536, 1_048_577])
def test_output_of_any_size_is_byte_exact(box: Sandbox, size: int) -> None:
    data = os.urandom(size)
    box.write("data", data)
    result = box.exec("cat data; cat data >&2", max_bytes=2_000_000)
    assert [hashlib.sha256(part).digest() for part in (result.stdout, result.stderr)] == [
        hashlib.sha256(data).digest()
    ] * 2


@pytest.mark.parametrize("size", [1, 65_537, 2_000_000])
def test_input_of_any_size_arrives(box: Sandbox, size: int) -> None:
    data = os.urandom(size)
    assert box.exec("sha256sum", stdin=data).stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()


def test_program_that_does_not_read_its_input_ends(box: Sandbox) -> None:
    assert box.exec("exit 3", stdin=b"x" * 1_000_000).exit_code == 3


@pytest.mark.parametrize("number", [6, 9, 11])
def test_death_by_signal_is_told(box: Sandbox, number: int) -> None:
    result = box.exec(f"kill -{number} $$")
    assert (result.reason, result.signal, result.exit_code) == ("signaled", number, None)


@pytest.mark.parametrize(
    "script", ["sleep 54.25 &", "setsid sleep 54.25 &", "nohup sleep 54.25 >/dev/null 2>&1 &", "(sleep 54.25 &)"]
)
def test_what_is_left_running_is_told_and_lives_on(box: Sandbox, script: str) -> None:
    result = box.exec(f"{script}\necho started", timeout_s=20)
    assert result.stdout == b"started\n" and len(result.left_running) == 1
    deadline = time.monotonic() + 10  # it may be a shell for a moment still
    while not sleepers(box, "54.25") and time.monotonic() < deadline:
        time.sleep(0.02)
    assert sleepers(box, "54.25") == 1


def test_what_is_left_running_is_told_beside_others_that_run(box: Sandbox) -> None:
    other = box.start("sleep 60")
    try:
        assert box.exec("echo hi").left_running == ()
        assert len(box.exec("sleep 61 >/dev/null 2>&1 & echo started").left_running) == 1
        assert box.exec("echo hi").left_running == ()
    finally:
        other.cancel()


def test_work_after_the_output_is_closed_is_waited_for(box: Sandbox) -> None:
    assert box.exec("exec >&- 2>&-; sleep 0.1; echo x >late; exit 6").exit_code == 6
    assert box.read("late") == b"x\n"


def test_many_short_processes_leave_no_zombies(box: Sandbox) -> None:
    script = "cp /bin/true briefly; for i in $(seq 300); do (./briefly &); done; echo ok"
    assert box.exec(script, timeout_s=60).stdout == b"ok\n"
    count = "ps -e -o stat=,comm= | grep -c '^Z.*briefly'"
    assert settled(lambda: box.exec(count).stdout.strip(), b"0") == b"0"


def test_sixty_four_at_once(box: Sandbox) -> None:
    with ThreadPoolExecutor(64) as pool:
        said = list(pool.map(lambda number: box.exec(f"echo {number}", timeout_s=120).stdout, range(64)))
    assert said == [b"%d\n" % number for number in range(64)]


@pytest.mark.parametrize("timeout_s", [0.001, 0.3])
def test_timeout_is_told_with_what_was_said(box: Sandbox, timeout_s: float) -> None:
    began = time.monotonic()
    assert box.exec("echo x; sleep 55.25", timeout_s=timeout_s).reason == "timeout"
    assert time.monotonic() - began < 30
    assert settled(lambda: sleepers(box, "55.25"), 0) == 0


# -- files


def test_modes_and_names_survive(box: Sandbox) -> None:
    box.write("d/ü \n", b"x", mode=0o751)
    assert box.exec("find d -type f -printf '%m\\n'").stdout == b"751\n" and box.list("d") == ("ü \n",)


def test_changes_are_told_and_carried_over(box: Sandbox, place: Env, tmp_path: Path) -> None:
    assert box.diff() == ""
    box.exec("echo two >>a.txt; mkdir d; printf 'no newline' >d/n; printf 'a\\r\\nb\\r\\n' >crlf")
    box.write("b", os.urandom(300))
    diff = box.diff()
    with place.open(Spec(tree=tmp_path / "tree")) as other:
        other.patch(diff)
        assert other.diff() == diff and other.read("b") == box.read("b") and other.read("crlf") == b"a\r\nb\r\n"


def test_patch_that_does_not_apply_changes_nothing(box: Sandbox) -> None:
    with pytest.raises(SandboxError) as caught:
        box.patch("--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-other\n+new\n")
    assert caught.value.fault.code == "patch_failed" and box.diff() == ""


def test_a_mode_hides_nothing_from_the_diff(box: Sandbox) -> None:
    box.exec("echo two >a.txt; mkdir -p d/e; echo x >d/e/f; echo new >n; chmod 0 a.txt d/e/f d/e d n")
    diff = box.diff()
    assert "-one\n+two\n" in diff and "b/d/e/f" in diff and "b/n" in diff
    assert box.exec("find a.txt d n -maxdepth 0 -printf %m").stdout == b"000", "modes are as they were"
    box.exec("chmod 755 d d/e")
    assert box.exec("find d/e/f -printf %m").stdout == b"0"


DEEP = "import os\nfor _ in range(1200):\n    os.mkdir('dddd')\n    os.chdir('dddd')\nopen('f', 'w')"


def test_directories_too_deep_are_the_workloads_own_doing(place: Env) -> None:
    """Deeper than a path is long, and than functions of Python may call themselves."""
    with place.open(Spec()) as box:
        assert box.exec(["python3", "-c", DEEP]).ok
        for call in (box.diff, lambda: box.fork().close()):
            with pytest.raises(SandboxError) as caught:
                call()
            assert (caught.value.fault.code, caught.value.fault.attributable) == ("workload.too_deep", "model")
        with tarfile.open(fileobj=io.BytesIO(b"".join(box.pack()))) as tar:
            assert len(tar.getnames()) > 700 and json.loads(tar.pax_headers[LEFT_OUT])["deep"] > 0
        assert box.exec("echo on").ok


def test_a_directory_that_is_taken_out_says_what_it_lacks(place: Env, box: Sandbox) -> None:
    box.exec("mkdir t t/shut; echo a >t/a; echo b >t/b; ln t/a t/c; ln -s l t/l; ln -s shut/x t/m; chmod 0 t/a t/shut")
    with tarfile.open(fileobj=io.BytesIO(b"".join(box.pack("t")))) as tar:
        names = sorted(tar.getnames())
        said = json.loads(tar.pax_headers.get(LEFT_OUT, "{}"))
    if "b" in names and "a" in names:
        pytest.skip("as root without isolation nothing is closed")
    assert names == [".", "b", "l", "m", "shut"]
    assert (said["closed"], sorted(said["names"])) == (3, [["closed", "a"], ["closed", "c"], ["closed", "shut"]])


def test_fork_is_equal_then_apart(box: Sandbox) -> None:
    box.exec("echo x >shared; ln -s shared link; chmod 700 shared")
    with box.fork() as fork:
        assert (
            fork.exec("cat link; find shared -printf %m").stdout == box.exec("cat link; find shared -printf %m").stdout
        )
        fork.write("shared", b"fork")
        box.write("mine", b"x")
        assert box.read("shared") == b"x\n" and "mine" not in fork.list()


def test_fifo_and_device_do_not_hang_a_reader(box: Sandbox) -> None:
    box.exec("mkfifo pipe; ln -s /dev/zero zero")
    for name in ("pipe", "zero"):
        with pytest.raises(SandboxError) as caught:
            box.read(name)
        assert caught.value.fault.attributable == "client"


def test_closed_is_closed(place: Env) -> None:
    box = place.open(Spec())
    box.close()
    box.close()
    with pytest.raises(SandboxError) as caught:
        box.exec("true")
    assert caught.value.fault.code == "client.closed"


# -- hostile workloads


def test_stopping_whatever_starts_does_not_hold_the_sandbox_up(box: Sandbox, place: Env) -> None:
    """New processes are stopped before they have become programs: the sandbox gets rid of the stopper by itself."""
    if place.describe()["isolation"] == "none":
        pytest.skip("without isolation such a command would stop this machine")
    stopper = "import os, signal\nwhile True:\n  try: os.kill(-1, signal.SIGSTOP)\n  except OSError: pass"
    box.exec(["setsid", "python3", "-c", f"import os\nif os.fork() == 0:\n exec({stopper!r})"])
    for _ in range(5):
        with suppress(SandboxError):
            box.exec("echo x", timeout_s=3)
    assert settled(lambda: box.exec("echo alive", timeout_s=5).stdout, b"alive\n", seconds=40) == b"alive\n"
