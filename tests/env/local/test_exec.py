"""Commands: what comes back, when, and what stays behind."""

import hashlib
import os
import signal
import threading
import time

import pytest

from orchard_cli.env.sandbox import Sandbox
from orchard_cli.errors import SandboxError


def test_streams_and_exit_code_come_back_apart(sandbox: Sandbox) -> None:
    result = sandbox.exec("echo out; echo err >&2; exit 3")
    assert (result.stdout, result.stderr, result.exit_code, result.reason) == (b"out\n", b"err\n", 3, "exited")
    assert not result.ok and result.wall_s > 0


def test_merge_keeps_the_order_of_both_streams(sandbox: Sandbox) -> None:
    result = sandbox.exec("echo 1; echo 2 >&2; echo 3", merge=True)
    assert (result.stdout, result.stderr, result.stderr_bytes) == (b"1\n2\n3\n", b"", 0)


def test_arguments_arrive_as_given(sandbox: Sandbox) -> None:
    words = ["a b", "", "'", '"', "$HOME", "new\nline", "*", "é", os.fsdecode(b"\xff")]
    result = sandbox.exec(["printf", "%s\\0", *words])
    assert result.stdout == b"".join(os.fsencode(word) + b"\0" for word in words)


def test_environment_is_clean_and_can_be_added_to(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORCHARD_SECRET", "leaked")
    names = {line.split(b"=")[0] for line in sandbox.exec(["env"], env={"MINE": "x"}).stdout.splitlines()}
    assert b"MINE" in names and b"PATH" in names
    assert names <= {b"PATH", b"HOME", b"LC_CTYPE", b"TERM", b"TMPDIR", b"TAR_OPTIONS", b"MINE"}


def test_command_runs_in_workdir_or_below(sandbox: Sandbox) -> None:
    sandbox.exec("mkdir sub")
    assert sandbox.exec("pwd").stdout == b"/workspace\n"
    assert sandbox.exec("pwd", cwd="sub").stdout == b"/workspace/sub\n"
    assert sandbox.exec("pwd", cwd="/tmp").stdout == b"/tmp\n"


def test_missing_directory_is_an_error_and_nothing_runs(sandbox: Sandbox) -> None:
    with pytest.raises(SandboxError) as caught:
        sandbox.exec("touch /workspace/ran", cwd="nowhere")
    assert caught.value.fault.code == "client.no_such_directory"
    assert (caught.value.fault.attributable, caught.value.fault.effect) == ("client", "none")
    assert sandbox.list() == ("a.txt",)


def test_missing_program_ends_like_in_a_shell(sandbox: Sandbox) -> None:
    result = sandbox.exec(["no-such-program"])
    assert result.exit_code == 127 and b"no-such-program" in result.stderr


@pytest.mark.parametrize("bad", ["a\0b", ["a", "b\0"], []])
def test_words_that_no_program_can_get_are_refused(sandbox: Sandbox, bad: str | list[str]) -> None:
    with pytest.raises(SandboxError) as caught:
        sandbox.exec(bad)
    assert caught.value.fault.code == "client.bad_argument"


def test_script_of_a_mebibyte_runs_and_leaves_no_descriptor(sandbox: Sandbox) -> None:
    result = sandbox.exec("echo start\n" + "# filler\n" * 120_000 + "ls /proc/self/fd | wc -l; echo end")
    assert result.stdout.split() == [b"start", b"4", b"end"]  # 0, 1, 2 and the one that ls opens


def test_stdin_is_given_whole_and_empty_by_default(sandbox: Sandbox) -> None:
    data = os.urandom(3_000_000)
    assert sandbox.exec("sha256sum", stdin=data).stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()
    assert sandbox.exec("wc -c").stdout == b"0\n"
    assert sandbox.exec("true", stdin=data).ok  # a program need not read it


def test_binary_output_is_byte_exact(sandbox: Sandbox) -> None:
    data = bytes(range(256)) * 300
    assert sandbox.exec("cat", stdin=data).stdout == data


def test_long_output_keeps_head_and_tail_and_counts_all(sandbox: Sandbox) -> None:
    result = sandbox.exec("seq 100000; seq 7 >&2", max_bytes=100)
    full = b"".join(b"%d\n" % number for number in range(1, 100_001))
    assert result.stdout == full[:50] + full[-50:]
    assert (result.stdout_bytes, result.stderr_bytes) == (len(full), 14)
    assert result.truncated_bytes == len(full) - 100


def test_endless_output_is_cut_off_by_the_timeout(sandbox: Sandbox) -> None:
    result = sandbox.exec("yes", timeout_s=0.4, max_bytes=1000)
    assert result.reason == "timeout" and len(result.stdout) == 1000
    assert result.stdout_bytes > 1_000_000


def test_background_child_does_not_hold_the_result_back(sandbox: Sandbox) -> None:
    result = sandbox.exec("sleep 30 & echo started")
    assert (result.stdout, result.exit_code, len(result.left_running)) == (b"started\n", 0, 1)
    assert result.wall_s < 5
    assert sandbox.exec(f"kill -0 {result.left_running[0]}").ok


def test_late_words_of_a_pipe_reader_are_kept(sandbox: Sandbox) -> None:
    assert sandbox.exec("echo text > >(tr a-z A-Z)").stdout == b"TEXT\n"


def test_left_running_process_may_go_on_writing(sandbox: Sandbox) -> None:
    """Its pipes are emptied for it: no SIGPIPE, no standstill."""
    sandbox.exec("(for i in 1 2 3 4; do sleep 0.05; head -c 100000 /dev/zero; done; echo done >fin) &")
    assert sandbox.exec("until [ -e fin ]; do sleep 0.02; done; cat fin", timeout_s=10).stdout == b"done\n"


def test_timeout_ends_all_that_the_command_started_and_nothing_else(sandbox: Sandbox) -> None:
    server = sandbox.exec("sleep 31 & echo $!").left_running
    script = "echo before; sleep 32 & setsid sleep 33 & (setsid sh -c 'sleep 34 & sleep 35' &) ; sleep 36"
    result = sandbox.exec(script, timeout_s=0.3)
    assert (result.reason, result.exit_code, result.stdout) == ("timeout", None, b"before\n")
    running = sandbox.exec("pgrep -a sleep").stdout.decode().splitlines()
    assert running == [f"{server[0]} sleep 31"]


def test_timeout_is_final_for_those_who_ignore_it(sandbox: Sandbox) -> None:
    result = sandbox.exec("trap '' TERM; echo still; sleep 37; sleep 38", timeout_s=0.5)
    assert (result.reason, result.stdout) == ("timeout", b"still\n")
    assert sandbox.exec("pgrep sleep").exit_code == 1


def test_timeout_of_a_millisecond_leaves_a_working_sandbox(sandbox: Sandbox) -> None:
    for _ in range(3):
        assert sandbox.exec("sleep 39", timeout_s=0.001).reason == "timeout"
    assert sandbox.exec("echo ok").stdout == b"ok\n"


def test_graceful_end_gets_its_last_words_in(sandbox: Sandbox) -> None:
    result = sandbox.exec("trap 'echo bye; exit 0' TERM; while :; do sleep 0.01; done", timeout_s=0.2)
    assert (result.reason, result.stdout) == ("timeout", b"bye\n")


@pytest.mark.parametrize("code", [0, 1, 124, 125, 127, 255])
def test_exit_codes_are_the_command_s_own(sandbox: Sandbox, code: int) -> None:
    result = sandbox.exec(f"exit {code}")
    assert (result.reason, result.exit_code, result.signal) == ("exited", code, None)


def test_death_by_signal_is_told_apart(sandbox: Sandbox) -> None:
    result = sandbox.exec("kill -SEGV $$")
    assert (result.reason, result.exit_code, result.signal) == ("signaled", None, signal.SIGSEGV)


def test_traceback_is_complete(sandbox: Sandbox) -> None:
    lines = sandbox.exec(["python3", "-c", "import nope"]).stderr.decode().splitlines()
    assert lines[0].startswith("Traceback") and lines[-1].endswith("'nope'")


def test_commands_run_side_by_side(sandbox: Sandbox) -> None:
    """Each waits for the other: in turn they would both time out."""
    results = []
    scripts = [f"echo x >{mine}; until [ -e {other} ]; do sleep 0.01; done" for mine, other in ("pq", "qp")]
    threads = [
        threading.Thread(target=lambda s=s: results.append(sandbox.exec(s, timeout_s=10).reason)) for s in scripts
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == ["exited", "exited"]


def test_timeout_spares_a_command_that_runs_beside(sandbox: Sandbox) -> None:
    results = []
    beside = threading.Thread(target=lambda: results.append(sandbox.exec("(sleep 1; echo ok) & wait")))
    beside.start()
    assert sandbox.exec("setsid sleep 40 & sleep 41", timeout_s=0.2).reason == "timeout"
    beside.join()
    assert (results[0].reason, results[0].stdout) == ("exited", b"ok\n")


def test_dead_are_collected(sandbox: Sandbox) -> None:
    sandbox.exec("for i in $(seq 100); do (true &) ; done")
    until = time.monotonic() + 5
    while (states := sandbox.exec("ps -e -o stat=").stdout.split()) and time.monotonic() < until:
        if not [state for state in states if state.startswith(b"Z")]:
            return
    pytest.fail(f"zombies remain: {states}")
