"""`orchard env exec|shell`: output whole, input passed on, options told apart, and an end that ends the command."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from orchard_cli.commands.env_run import show
from orchard_cli.env.execution import Event

from ..conftest import settled
from .conftest import Rest
from .test_command import orchard


def begun(rest: Rest, *words: str) -> "subprocess.Popen[bytes]":
    environment = {**os.environ, "ORCHARD_ENV_URL": rest.url, "ORCHARD_ENV_API_KEY": rest.key}
    argv = [sys.executable, "-m", "orchard_cli", "env", *words]
    pipe = subprocess.PIPE
    return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, env=environment, bufsize=0)


def runs(rest: Rest, id: str, name: str) -> bool:
    return bool(rest.out(id, f"cat /proc/[0-9]*/comm 2>/dev/null | grep -x {name}"))


def test_output_comes_whole_however_fast_it_is(rest: Rest) -> None:
    id = rest.make()
    lines = begun(rest, "exec", id, "seq 1 1000000").communicate(timeout=100)[0]
    assert lines == b"".join(b"%d\n" % number for number in range(1, 1_000_001))
    both = begun(rest, "exec", id, "for i in $(seq 60000); do echo $i; echo $i >&2; done").communicate(timeout=100)
    assert both[0] == both[1] == b"".join(b"%d\n" % number for number in range(1, 60_001))


def test_a_reader_that_stops_for_a_while_misses_nothing(rest: Rest) -> None:
    with begun(rest, "exec", rest.make(), "head -c 20000000 /dev/zero | tr '\\0' x; echo end") as running:
        assert running.stdout is not None
        size = len(running.stdout.read(1))
        os.kill(running.pid, signal.SIGSTOP)
        signal.sigtimedwait([], 0.5)
        os.kill(running.pid, signal.SIGCONT)
        rest_of_it = running.communicate(timeout=100)[0]
    assert size + len(rest_of_it) == 20_000_004 and rest_of_it.endswith(b"xend\n")


def test_a_slow_command_is_not_held_by_a_reader_that_never_comes(rest: Rest) -> None:
    """Nobody follows it; the sandbox is ended all the same, and so is a command that waits for a reader."""
    id = rest.make()
    started = rest("POST", f"/v1/sandboxes/{id}/execs", {"script": "yes", "paced": True})
    assert started.status == 202
    assert rest("DELETE", f"/v1/sandboxes/{id}").status == 204
    refused = rest("POST", f"/v1/sandboxes/{rest.make()}/execs", {"script": "yes", "paced": True}, wait=1)
    assert refused.code == "client.bad_request" and "without `wait`" in refused.json["detail"]


def test_what_is_lost_is_told_and_no_success(capfd: pytest.CaptureFixture[str]) -> None:
    more = {"exit_code": 0, "reason": "exited", "signal": None, "stdout_bytes": 1010, "stderr_bytes": 7, "wall_s": 1.0}
    events = [Event(1, "out", data=b"abc"), Event(9, "out", data=b"end", offset=1000), Event(10, "exit", more=more)]
    assert show(events).tell() == 1
    said = capfd.readouterr()
    assert said.out == "abcend" and "1,011 bytes of its output were lost" in said.err and "hint: " in said.err
    whole = {**more, "stdout_bytes": 3, "stderr_bytes": 0}
    assert show([Event(1, "out", data=b"abc"), Event(2, "exit", more=whole)]).tell() == 0
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_end_of_ours_ends_the_command(rest: Rest, number: int) -> None:
    id = rest.make()
    running = begun(rest, "exec", id, "echo up; sleep 77")
    assert running.stdout is not None and running.stdout.readline() == b"up\n"
    running.send_signal(number)
    said = running.communicate(timeout=30)[1].decode()
    assert running.returncode == 128 + number
    assert said.startswith("error: interrupted") and "cancelled" in said and "Traceback" not in said
    assert settled(lambda: runs(rest, id, "sleep"), False) is False


def test_an_output_that_is_closed_ends_the_command(rest: Rest) -> None:
    id = rest.make()
    with begun(rest, "exec", id, "yes") as running:
        assert running.stdout is not None and running.stdout.readline() == b"y\n"
        running.stdout.close()
        assert running.stderr is not None and running.stderr.read() == b""
        assert running.wait(30) == 128 + signal.SIGPIPE
    assert settled(lambda: runs(rest, id, "yes"), False) is False


def test_an_output_that_is_full_ends_the_command(rest: Rest) -> None:
    id, environment = rest.make(), {**os.environ, "ORCHARD_ENV_URL": rest.url, "ORCHARD_ENV_API_KEY": rest.key}
    argv = [sys.executable, "-m", "orchard_cli", "env", "exec", id, "yes"]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(argv, stdout=full, stderr=subprocess.PIPE, env=environment, text=True, timeout=60)
    assert done.returncode == 1 and done.stderr.startswith("error: standard output cannot be written")
    assert "out=" not in done.stderr
    assert settled(lambda: runs(rest, id, "yes"), False) is False


def test_input_is_passed_on(rest: Rest, tmp_path: Path) -> None:
    id = rest.make()
    assert orchard(rest, "exec", id, "cat", stdin="abc\n").stdout == "abc\n"
    text = "".join(f"{number}\n" for number in range(400_000))
    assert orchard(rest, "exec", id, "cat", stdin=text).stdout == text
    assert orchard(rest, "exec", id, "head -n 1", stdin=text).stdout == "0\n"  # it takes no more: no fault
    assert orchard(rest, "exec", id, "exit 3", stdin=text).returncode == 3


def test_what_follows_the_sandbox_is_the_commands_own(rest: Rest) -> None:
    id = rest.make()
    words = ("--url", "http://127.0.0.1:1/", "--timeout-s=3", "--help")
    assert orchard(rest, "exec", id, "printf", "%s|", *words).stdout == "|".join(words) + "|"
    assert orchard(rest, "exec", id, "--", "printf", "%s", "--help").stdout == "--help"
    assert orchard(rest, "exec", "--timeout-s", "30", id, "printf", "%s", "--", "x").stdout == "--x"
    misplaced = orchard(rest, "exec", id, "--timeout-s", "3", "ls")
    assert misplaced.returncode == 2 and "options go before" in misplaced.stderr


def test_an_end_without_words_is_told(rest: Rest) -> None:
    id = rest.make()
    missing = orchard(rest, "exec", id, "nosuch", "arg")
    assert (missing.returncode, missing.stderr) == (127, "nosuch: No such file or directory\n")
    timed = orchard(rest, "exec", "--timeout-s", "0.3", id, "sleep 30")
    assert timed.returncode == 124 and "its time was over" in timed.stderr and "--timeout-s" in timed.stderr
    own = orchard(rest, "exec", id, "exit 130")  # its own code, not a Ctrl-C of ours
    assert (own.returncode, own.stderr) == (130, "")


def test_a_shell_from_a_pipe_is_one_shell(rest: Rest) -> None:
    id = rest.make()
    script = "for i in 1 2\ndo echo $i\ndone\nexport A=kept\ncd /tmp\necho $A; pwd\nexit 5\n"
    done = orchard(rest, "shell", id, stdin=script)
    assert (done.stdout, done.returncode) == ("1\n2\nkept\n/tmp\n", 5)
    assert orchard(rest, "shell", id, stdin="false\n").returncode == 1
