"""A remote sandbox does what a local one does; the same assertions run against both."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchard_cli.env.execution import Terminal
from orchard_cli.env.local.local import LocalEnv
from orchard_cli.env.remote import RemoteEnv
from orchard_cli.env.sandbox import Bind, Env, Limits, Spec
from orchard_cli.errors import SandboxError

from ..conftest import settled
from ..service.conftest import Rest


@pytest.fixture(params=["local", "named", "uploaded"])
def place(request: pytest.FixtureRequest, env: LocalEnv, rest: Rest) -> Iterator[Env]:
    if request.param == "local":
        yield env
        return
    with RemoteEnv(rest.url, rest.key, share=request.param == "named") as remote:
        yield remote


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "a.py").write_text("one\n")
    (folder / "run").write_text("#!/bin/sh\necho ran\n")
    (folder / "run").chmod(0o755)
    (folder / "link").symlink_to("src/a.py")
    return folder


def test_the_tree_is_there_and_stays_as_it_was(place: Env, tree: Path) -> None:
    with place.open(Spec(tree=tree, env={"GREETING": "hi"})) as box:
        assert box.exec("cat link; ./run; echo $GREETING").stdout == b"one\nran\nhi\n"
        box.exec("echo two >src/a.py; rm link")
        assert "-one\n+two" in box.diff()
    assert (tree / "src" / "a.py").read_text() == "one\n"
    assert (tree / "link").is_symlink()


def test_binds_are_seen_and_cannot_be_written(place: Env, tree: Path) -> None:
    with place.open(Spec(binds=(Bind(tree, "/opt/seen"),))) as box:
        assert box.read("/opt/seen/src/a.py") == b"one\n"
        assert not box.exec("echo x >/opt/seen/src/a.py").ok


def test_results_are_the_same_in_every_field(place: Env) -> None:
    with place.open(Spec()) as box:
        done = box.exec(["sh", "-c", r"printf '\377\000x'; echo err >&2; exit 7"])
        assert (done.exit_code, done.reason, done.signal) == (7, "exited", None)
        assert (done.stdout, done.stderr, done.stdout_bytes, done.stderr_bytes) == (b"\xff\0x", b"err\n", 3, 4)
        killed = box.exec("kill -9 $$")
        assert (killed.exit_code, killed.reason, killed.signal) == (None, "signaled", 9)
        assert box.exec("echo a; echo b >&2", merge=True).stdout == b"a\nb\n"
        cut = box.exec("head -c 100000 /dev/zero", max_bytes=100)
        assert (len(cut.stdout), cut.truncated_bytes) == (100, 99_900)
        assert box.exec("cat", stdin=b"\xfe\n").stdout == b"\xfe\n"
        assert box.exec("echo '\udcff'").stdout == b"\xff\n"
        assert box.exec("sleep 9", timeout_s=0.2).reason == "timeout"
        assert box.exec("pwd; echo $A", cwd="/tmp", env={"A": "b"}).stdout == b"/tmp\nb\n"


def test_files_names_and_patches(place: Env, tree: Path) -> None:
    with place.open(Spec(tree=tree)) as box:
        box.write("new/deep", b"\xff", mode=0o600)
        assert box.read("new/deep") == b"\xff"
        assert box.list() == ("link", "new/", "run", "src/")
        box.patch("--- a/src/a.py\n+++ b/src/a.py\n@@ -1 +1 @@\n-one\n+two\n")
        assert box.read("src/a.py") == b"two\n"
        with box.fork() as fork:
            fork.write("src/a.py", b"three\n")
            assert box.read("src/a.py") == b"two\n"


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda box: box.read("none"), "client.no_such_file"),
        (lambda box: box.read("src"), "client.is_a_directory"),
        (lambda box: box.read("run", max_bytes=3), "client.too_large"),
        (lambda box: box.exec("a\0b"), "client.bad_argument"),
        (lambda box: box.exec([]), None),
        (lambda box: box.patch("--- a/q\n+++ b/q\n@@ -1 +1 @@\n-a\n+b\n"), "patch_failed"),
        (lambda box: box.exec("true", cwd="/none"), None),
    ],
)
def test_refusals_have_the_same_code_and_owner(place: Env, tree: Path, call: object, code: str | None) -> None:
    with place.open(Spec(tree=tree)) as box, pytest.raises(SandboxError) as caught:
        call(box)  # type: ignore[operator]
    fault = caught.value.fault
    assert code in (None, fault.code)
    assert fault.attributable in ("client", "model")
    assert fault.effect == "none"


def test_limits_go_over_the_wire(place: Env) -> None:
    with place.open(Spec(limits=Limits(memory_mb=64))) as box:
        done = box.exec(["python3", "-c", "x = b'x' * (1 << 30)"])
        assert not done.ok


def test_a_port_inside_is_reached(place: Env) -> None:
    server = (
        "import socket; s = socket.create_server(('127.0.0.1', 4242)); open('up', 'w').close(); c = s.accept()[0]\n"
        "while data := c.recv(65536): c.sendall(data)\n"
    )
    with place.open(Spec()) as box:
        box.exec(f'setsid python3 -c "{server}" >/dev/null 2>&1 & until [ -e up ]; do sleep 0.02; done')
        data = bytes(range(256)) * 1000
        with box.connect(4242) as connection:
            sender = threading.Thread(target=lambda: (connection.sendall(data), connection.shutdown(socket.SHUT_WR)))
            sender.start()
            got = b"".join(iter(lambda: connection.recv(65_536), b""))
            sender.join()
        assert got == data
        with pytest.raises(SandboxError) as caught:
            box.connect(4243)
        assert caught.value.fault.code == "connect_refused"


def test_a_connection_that_is_closed_here_is_closed_inside(place: Env) -> None:
    """Also one whose other side would go on saying nothing."""
    server = (
        "import socket; s = socket.create_server(('127.0.0.1', 4242)); open('up', 'w').close(); c = s.accept()[0]\n"
        "while c.recv(65536): pass\n"
        "import time; time.sleep(60)\n"
    )
    before = tunnels()
    with place.open(Spec()) as box:
        box.exec(f'setsid python3 -c "{server}" >/dev/null 2>&1 & until [ -e up ]; do sleep 0.02; done')
        box.connect(4242).close()
        assert settled(tunnels, before) == before
        assert box.exec("true").ok


def tunnels() -> int:
    return sum(thread.name == "orchard-tunnel" for thread in threading.enumerate())


def test_after_the_last_event_there_is_none(place: Env) -> None:
    with place.open(Spec()) as box:
        running = box.start("echo once")
        last = list(running.events())[-1]
        assert last.type == "exit" and list(running.events(last.seq)) == []


def test_a_command_is_heard_while_it_runs_and_fed(place: Env) -> None:
    with place.open(Spec()) as box:
        running = box.start("echo ready; while read line; do echo got $line; done; echo end", stdin=None)
        events = running.events()
        heard = b""
        while b"ready" not in heard:
            heard += next(events).data
        running.write(b"one\n")
        while b"got one" not in heard:
            heard += next(events).data
        running.close_stdin()
        assert running.wait(30).stdout == b"ready\ngot one\nend\n"
        assert list(events)[-1].type == "exit"


def test_a_command_is_cancelled_and_signalled(place: Env) -> None:
    with place.open(Spec()) as box:
        running = box.start("echo up; sleep 60")
        next(event for event in running.events() if event.data)
        with pytest.raises(SandboxError) as caught:
            running.wait(0.05)
        assert caught.value.fault.code == "client.still_running"
        running.cancel()
        assert running.wait(30).reason == "cancelled"
        trapped = box.start("trap 'echo hup; exit 5' HUP; echo up; while :; do sleep 0.05; done")
        next(event for event in trapped.events() if event.data)
        trapped.signal(1)
        assert trapped.wait(30).stdout == b"up\nhup\n"


def test_a_terminal(place: Env) -> None:
    with place.open(Spec()) as box:
        running = box.start("tty >/dev/null && stty size", terminal=Terminal(30, 99))
        assert b"30 99" in running.wait(30).stdout


def test_closing_twice_is_fine(place: Env) -> None:
    box = place.open(Spec())
    box.close()
    box.close()


def test_silence_has_a_limit_of_its_own(place: Env) -> None:
    with place.open(Spec()) as box:
        run = box.start("echo before; sleep 30", no_output_timeout_s=0.3, timeout_s=20)
        done = run.wait(20)
        assert (done.reason, done.stdout) == ("no_output_timeout", b"before\n")


def test_the_grace_before_a_kill_is_given(place: Env) -> None:
    script = "trap 'sleep 0.7; echo tidied; exit' TERM; echo ready; while :; do sleep 0.05; done"
    with place.open(Spec()) as box:
        for grace, wanted in ((20.0, b"ready\ntidied\n"), (0.0, b"ready\n")):
            run = box.start(script, kill_grace_s=grace, timeout_s=30)
            next(event for event in run.events() if event.data == b"ready\n")
            run.cancel()
            done = run.wait(30)
            assert (done.reason, done.stdout) == ("cancelled", wanted)


def test_a_spool_keeps_what_results_and_events_cut(place: Env) -> None:
    with place.open(Spec()) as box:
        run = box.start("head -c 3000000 /dev/zero; echo end; echo x >&2", max_bytes=100, spool_bytes=5_000_000)
        assert len(run.wait().stdout) == 100
        assert b"".join(run.spooled()) == bytes(3_000_000) + b"end\n"
        assert b"".join(run.spooled("err")) == b"x\n"
        short = box.start("echo 123456789", spool_bytes=4)
        short.wait()
        assert b"".join(short.spooled()) == b"1234"
        none = box.start("echo 1")
        none.wait()
        with pytest.raises(SandboxError) as caught:
            b"".join(none.spooled())
        assert caught.value.fault.code == "client.no_such_file"
