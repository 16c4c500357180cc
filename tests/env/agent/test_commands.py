"""Commands at a real agent: keys, events, input, terminals, ends."""

import hashlib
import json
import os
import threading
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from orchard_cli.env.agent.login import MARK, Login
from orchard_cli.env.channel import Channel
from orchard_cli.env.execution import Terminal
from orchard_cli.env.running import order, run, start
from orchard_cli.errors import SandboxError

from ..conftest import alive, settled
from .conftest import Place, lost


def fault_of(call: object, *arguments: object, **named: object) -> tuple[str, str]:
    with pytest.raises(SandboxError) as caught:
        call(*arguments, **named)  # type: ignore[operator]
    return caught.value.fault.code, caught.value.fault.attributable


def test_same_key_is_the_same_execution_and_runs_once(place: Place) -> None:
    script = "echo x >>ran; cat ran"
    runs = [start(place.channel, script, key="once") for _ in range(5)]
    assert {running.id for running in runs} == {runs[0].id}
    assert [running.wait().stdout for running in runs] == [b"x\n"] * 5
    assert (place.workdir / "ran").read_text() == "x\n"


def test_same_key_for_other_words_is_a_conflict(place: Place) -> None:
    start(place.channel, "true", key="two").wait()
    assert fault_of(start, place.channel, "false", key="two") == ("client.key_conflict", "client")


def test_key_of_a_forgotten_command_never_runs_again(place: Place) -> None:
    running = start(place.channel, "echo x >>forgotten", key="three")
    running.wait()
    place.channel.ask("DELETE", f"/v1/execs/{running.id}")
    assert fault_of(start, place.channel, "echo x >>forgotten", key="three")[0] == "infra.result_forgotten"
    assert (place.workdir / "forgotten").read_text() == "x\n"


def test_events_from_any_cursor_are_the_rest_of_all(place: Place) -> None:
    running = start(place.channel, "for i in 1 2 3 4; do echo $i; sleep 0.01; echo e$i >&2; done; exit 3")
    events = list(running.events())
    assert (events[0].type, events[-1].type, events[-1].more["exit_code"]) == ("started", "exit", 3)
    assert b"".join(e.data for e in events if e.type == "out") == b"1\n2\n3\n4\n"
    assert [e.seq for e in events] == list(range(1, len(events) + 1))
    for after in range(len(events)):
        assert list(running.events(after)) == events[after:]


def test_output_that_is_no_text_and_cut_anywhere_is_byte_exact(place: Place) -> None:
    data = bytes(range(256)) * 40 + "héé".encode()
    (place.workdir / "data").write_bytes(data)
    running = start(place.channel, "head -c 5001 data; sleep 0.02; tail -c +5002 data")
    heard = [event for event in running.events() if event.type == "out"]
    assert b"".join(event.data for event in heard) == data == running.wait().stdout
    assert [event.offset for event in heard] == [sum(len(e.data) for e in heard[:i]) for i in range(len(heard))]


def test_gap_is_announced_never_silent(place: Place) -> None:
    running = start(place.channel, "for i in $(seq 200); do echo $i; sleep 0.0005; done; seq 3000", ring_bytes=2000)
    running.wait()
    events = list(running.events())
    assert events[0].type == "gap" and events[0].more["from"] == 1
    assert events[1].seq == events[0].more["to"] + 1  # type: ignore[operator]
    assert events[-1].type == "exit"


def test_paced_command_waits_for_whoever_follows_it(place: Place) -> None:
    running = start(place.channel, "seq 300000; echo err >&2", ring_bytes=100_000, paced=True)
    assert fault_of(running.wait, 0.5)[0] == "client.still_running"  # nobody reads
    events = list(running.events())
    assert b"".join(e.data for e in events if e.type == "out") == b"".join(b"%d\n" % n for n in range(1, 300_001))
    assert [e.type for e in events].count("gap") == 0 and events[-1].type == "exit"


def test_command_that_waits_for_a_reader_is_ended_as_any_other(place: Place) -> None:
    running = start(place.channel, "yes", ring_bytes=100_000, paced=True, timeout_s=0.3)
    assert running.wait(20).reason == "timeout"
    again = start(place.channel, "yes", ring_bytes=100_000, paced=True, no_output_timeout_s=0.2)
    assert fault_of(again.wait, 0.6)[0] == "client.still_running"  # it is held up, not silent
    again.cancel()
    assert again.wait(20).reason == "cancelled"


def test_spool_keeps_what_the_ring_does_not(place: Place) -> None:
    running = start(place.channel, "seq 100000; echo err >&2", ring_bytes=0, max_bytes=10, spool_bytes=300_000)
    running.wait()
    full = b"".join(b"%d\n" % number for number in range(1, 100_001))
    kept = place.channel.ask("GET", f"/v1/execs/{running.id}/output").body
    assert kept == full[:300_000]
    tail = place.channel.ask("GET", f"/v1/execs/{running.id}/output", query={"offset": 299_990, "stream": "out"}).body
    assert tail == full[299_990:300_000]
    assert place.channel.ask("GET", f"/v1/execs/{running.id}/output", query={"stream": "err"}).body == b"err\n"
    place.channel.ask("DELETE", f"/v1/execs/{running.id}")


def test_a_result_beyond_all_that_is_kept_can_be_had_once_it_is_there(place: Place) -> None:
    running = start(place.channel, "head -c 40000000 /dev/zero", max_bytes=64 << 20)
    assert [event.type for event in running.events()][-1] == "exit"
    assert len(running.wait().stdout) == 40_000_000


def test_open_input_is_fed_and_closed(place: Place) -> None:
    running = start(place.channel, "while read -r line; do echo got $line; done; echo end", stdin=None)
    running.write(b"one\ntw")
    running.write(b"o\n")
    running.close_stdin()
    assert running.wait(10).stdout == b"got one\ngot two\nend\n"


def test_large_input_waits_for_a_slow_reader(place: Place) -> None:
    data = os.urandom(5_000_000)
    running = start(place.channel, "sleep 0.2; sha256sum", stdin=None)
    running.write(data)
    running.close_stdin()
    assert running.wait(20).stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()


def test_input_sent_twice_is_taken_once(place: Place) -> None:
    running = start(place.channel, "cat", stdin=None)
    for _ in range(3):
        place.channel.ask("POST", f"/v1/execs/{running.id}/stdin", b"abc", query={"offset": 0})
    place.channel.ask("POST", f"/v1/execs/{running.id}/stdin", b"bcdef", query={"offset": 1, "close": 1})
    assert running.wait(10).stdout == b"abcdef"


def test_input_with_a_hole_in_it_is_refused(place: Place) -> None:
    running = start(place.channel, "cat", stdin=None)
    path = f"/v1/execs/{running.id}/stdin"
    assert fault_of(place.channel.ask, "POST", path, b"x", query={"offset": 5})[0] == "client.gap"
    running.cancel()
    assert running.wait(10).reason == "cancelled"


def test_input_nobody_reads_any_more_is_told(place: Place) -> None:
    running = start(place.channel, "exec 0<&-; sleep 5", stdin=None)
    assert settled(lambda: _refused(running.write, b"x" * 200_000), True)
    running.cancel()
    running.wait(10)


def _refused(call: object, *arguments: object) -> bool:
    try:
        call(*arguments)  # type: ignore[operator]
    except SandboxError as error:
        return error.fault.code == "client.stdin_closed"
    return False


def test_terminal_is_the_command_s_own(place: Place) -> None:
    running = start(place.channel, "tty; stty size; test -t 0 && test -t 2 && echo yes", terminal=Terminal(33, 77))
    said = running.wait(10).stdout.decode().split("\r\n")
    assert said[0].startswith("/dev/pts/") and said[1:3] == ["33 77", "yes"]


def test_terminal_resizes_and_takes_keys(place: Place) -> None:
    script = "trap 'stty size' WINCH; echo ready; while read -r line; do echo got $line; done; echo end"
    running = start(place.channel, script, terminal=Terminal())
    events = running.events()
    _hear(events, b"ready")
    running.resize(40, 100)
    running.write(b"hi\n")
    _hear(events, b"got hi")
    running.close_stdin()
    said = running.wait(10).stdout
    assert b"40 100" in said and b"end" in said


def _hear(events: object, word: bytes) -> None:
    said = b""
    while word not in said:
        said += next(events).data  # type: ignore[call-overload]


def test_control_c_interrupts(place: Place) -> None:
    running = start(place.channel, "echo ready; sleep 50; echo after", terminal=Terminal())
    _hear(running.events(), b"ready")
    running.write(b"\x03")
    result = running.wait(10)
    assert result.reason == "signaled" and b"after" not in result.stdout


def test_mebibyte_of_keys_is_not_lost(place: Place) -> None:
    """The reference loses what does not fit into the terminal's buffer at once."""
    running = start(place.channel, "stty raw -echo; echo ready; head -c 1000000 | sha256sum", terminal=Terminal())
    _hear(running.events(), b"ready")
    data = os.urandom(750_000).hex().encode()[:1_000_000]
    running.write(data)
    assert hashlib.sha256(data).hexdigest().encode() in running.wait(20).stdout


def test_silence_has_a_limit_of_its_own(place: Place) -> None:
    result = start(
        place.channel, "for i in 1 2 3; do echo $i; sleep 0.05; done; sleep 50", no_output_timeout_s=0.4
    ).wait()
    assert (result.reason, result.stdout) == ("no_output_timeout", b"1\n2\n3\n")


def test_signal_reaches_all_that_was_started(place: Place) -> None:
    running = start(place.channel, "trap 'echo got; exit 5' USR1; echo ready; while :; do sleep 0.01; done")
    _hear(running.events(), b"ready")
    running.signal(10)
    result = running.wait(10)
    assert (result.exit_code, result.stdout) == (5, b"ready\ngot\n")


def test_cancelled_command_says_so_and_takes_its_children_along(place: Place) -> None:
    running = start(place.channel, "setsid sleep 91.5 & sleep 92.5 & echo $!; wait")
    first = next(event for event in running.events() if event.type == "out")
    running.cancel()
    result = running.wait(10)
    assert (result.reason, result.left_running) == ("cancelled", ())
    assert settled(lambda: alive(int(first.data)), False) is False


def test_linger_none_ends_what_is_left(place: Place) -> None:
    result = start(place.channel, "sleep 93.5 & echo $!; exit 4", linger="none").wait()
    assert (result.reason, result.exit_code, result.left_running) == ("exited", 4, ())
    assert not alive(int(result.stdout))


def test_background_child_returns_immediately(place: Place) -> None:
    result = start(place.channel, "sleep 94.5 & echo started").wait()
    assert (result.stdout, result.exit_code, len(result.left_running)) == (b"started\n", 0, 1)
    assert result.wall_s < 20
    os.kill(result.left_running[0], 9)


def test_orphans_are_collected(place: Place) -> None:
    run(place.channel, order("for i in $(seq 50); do (true &) ; done", timeout_s=10), 10)
    children = Path(f"/proc/{place.process.pid}/task/{place.process.pid}/children")
    assert settled(lambda: children.read_text(), "") == ""


def test_login_env_keeps_traceback(place: Place) -> None:
    """Profiles are read once, and their noise does not reach the command's output."""
    home = Path(place.workdir).parent
    (home / ".bash_profile").write_text("echo noise; echo more >&2; export FROM_PROFILE=1; echo x >>~/profile-runs\n")
    for _ in range(3):
        result = start(place.channel, "echo $FROM_PROFILE; python3 -c 'import nope'", login={}).wait()
        assert result.stdout == b"1\n"
        assert result.stderr.startswith(b"Traceback") and result.stderr.rstrip().endswith(b"'nope'")
    assert (home / "profile-runs").read_text() == "x\n"
    assert start(place.channel, "echo $FROM_PROFILE").wait().stdout == b"\n"


def test_environment_starts_from_the_image_s(place: Place) -> None:
    result = start(place.channel, "echo $FROM_IMAGE $MORE; env", env={"MORE": "m"}).wait()
    assert result.stdout.startswith(b"yes m\n") and b"TOKEN" not in result.stdout


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no json",
        b"[]",
        b'{"argv":[]}',
        b'{"argv":["a"],"script":"b"}',
        b'{"argv":["a\\u0000"]}',
        b'{"script":"x","colour":1}',
        b'{"script":5}',
        b'{"script":"x","env":{"A=B":"c"}}',
        b'{"script":"x","env":{"A":5}}',
        b'{"script":"x","timeout_s":-1}',
        b'{"script":"x","stdin":"maybe"}',
        b'{"script":"x","tty":{"rows":0}}',
        b'{"script":"x","cwd":"/no/such/place"}',
        b'{"script":"\\ud83d"}',
        b'{"argv":["echo","\\ud83d"]}',
        b'{"script":"x","cwd":"\\ud83d"}',
        b'{"script":"x","env":{"A":"\\ud83d"}}',
        b'{"script":"x","login":{"A=B":"c"}}',
        b'{"script":"x","timeout_s":NaN}',
        b'{"script":"x","kill_grace_s":1%s}' % (b"0" * 400),
        b'{"script":"x","env":%s}' % (b"[" * 100_000),
    ],
)
def test_bad_orders_are_refused_and_nothing_runs(place: Place, body: bytes) -> None:
    before = json.loads(place.channel.ask("GET", "/v1/execs").body)
    headers = {"Idempotency-Key": os.urandom(4).hex()}
    code, attributable = fault_of(place.channel.ask, "POST", "/v1/execs", body, headers=headers)
    assert code.startswith("client.") and attributable == "client"
    query = {"wait_s": float("inf")}
    assert (
        fault_of(place.channel.ask, "POST", "/v1/execs", b'{"script":"true"}', headers=headers, query=query)[1]
        == "client"
    )
    assert json.loads(place.channel.ask("GET", "/v1/execs").body) == before


def test_program_that_is_not_there_ends_like_in_a_shell(place: Place) -> None:
    result = start(place.channel, ["no-such-program"]).wait()
    assert (result.exit_code, result.stderr) == (127, b"no-such-program: No such file or directory\n")
    (place.workdir / "plain").write_text("no program")
    assert start(place.channel, ["./plain"]).wait().exit_code == 126


def test_wait_that_is_over_leaves_the_command_alone(place: Place) -> None:
    running = start(place.channel, "sleep 0.3; echo done")
    assert fault_of(running.wait, 0.01)[0] == "client.still_running"
    assert running.wait().stdout == b"done\n"


def test_wrong_token_and_wrong_sandbox_execute_nothing(place: Place) -> None:
    for channel in (
        Channel(place.address, "box", "other", lost),
        Channel(place.address, "other", "token-of-the-test", lost),
    ):
        assert fault_of(start, channel, "echo x >wrong") == ("infra.identity_mismatch", "infra")
        channel.close()
    assert not (place.workdir / "wrong").exists()


def test_slow_follower_holds_nobody_up(place: Place) -> None:
    running = start(place.channel, "head -c 20000000 /dev/zero", ring_bytes=100_000, max_bytes=10)
    with place.channel.stream("GET", f"/v1/execs/{running.id}/events") as (_, pieces):
        next(pieces)
        began = time.monotonic()
        assert running.wait(20).stdout_bytes == 20_000_000
        assert time.monotonic() - began < 20
        assert any(b'"gap"' in piece for piece in pieces)


def test_whoever_feeds_a_command_that_is_ended_is_told(place: Place) -> None:
    runs = [start(place.channel, "sleep 60", stdin=None) for _ in range(8)]
    feeding = [threading.Thread(target=partial(fault_of, each.write, bytes(2 << 20))) for each in runs]
    for thread in feeding:
        thread.start()
    time.sleep(0.3)
    for each in runs:
        each.cancel()
    for thread in feeding:
        thread.join(10)
    assert not any(thread.is_alive() for thread in feeding)


def test_login_env_is_what_follows_the_last_mark(place: Place) -> None:
    (place.workdir / ".bash_profile").write_text(
        f"printf '{MARK}\\0X='; head -c 150000 /dev/zero | tr '\\0' x; printf '\\0'\n"
    )
    login = {"HOME": str(place.workdir)}
    assert start(place.channel, "echo $X", login=login).wait().stdout == b"\n"


ENDED = {"kept": [0], "exit_code": 1, "reason": "exited"}


def test_a_login_env_that_had_no_process_is_asked_for_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    said = f"{MARK}\0A=b\0".encode()
    answers = [
        ({**ENDED, "reason": "pid_limit"}, b""),
        ({"kept": [len(said)], "exit_code": 0, "reason": "exited"}, said),
    ]

    def begin(*arguments: object) -> object:
        answer = answers.pop(0)
        return SimpleNamespace(state="done", waiters=[], result=lambda: answer)

    monkeypatch.setattr("orchard_cli.env.agent.login.Execution", begin)
    login, seen = Login(cast(Any, None), {}), list[object]()
    for _ in range(2):
        login.learn({}, lambda: seen.append((login.known, login.env)))
    assert seen == [(True, {}), (True, {"A": "b"})] and login.known


def test_who_is_refused_a_login_env_does_not_run_later(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    done = SimpleNamespace(state="done", waiters=[], result=lambda: (ENDED, b""))
    made = iter([None, done])

    def begin(*arguments: object) -> object:
        if one := next(made):
            return one
        raise OSError("no descriptor is left")

    monkeypatch.setattr("orchard_cli.env.agent.login.Execution", begin)
    login = Login(cast(Any, None), {})
    with pytest.raises(OSError, match="descriptor"):
        login.learn({}, lambda: ran.append("refused"))
    login.learn({}, lambda: ran.append("taken"))
    assert ran == ["taken"]
