"""A command that is talked to over one connection, and a shell in this terminal."""

import os
import pty
import select
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from orchard_cli.env.execution import Terminal
from orchard_cli.env.remote import RemoteEnv
from orchard_cli.env.remote.attachment import Attachment
from orchard_cli.env.sandbox import Spec
from orchard_cli.errors import SandboxError

from ..conftest import settled
from ..service.conftest import Rest


def said_until(attached: Attachment, words: bytes) -> bytes:
    said = b""
    for event in attached:
        said += event.data
        if words in said:
            return said
    raise AssertionError(f"{words!r} never came: {said!r}")


def test_a_terminal_takes_keys_sizes_signals_and_an_end(remote: RemoteEnv) -> None:
    with remote.open(Spec()) as box:
        run = box.start("trap 'stty size' WINCH; trap 'echo usr' USR1; tty; cat; exit 7", terminal=Terminal(11, 22))
        with box.attach(run) as attached:
            assert b"/dev/pts/" in said_until(attached, b"\n")
            attached.write(b"typed\r")
            said_until(attached, b"typed\r\ntyped\r\n")
            attached.resize(33, 44)
            attached.signal(signal.SIGUSR1)
            attached.write(b"\x04")
            rest = b"".join(event.data for event in attached if event.type != "exit")
            assert b"33 44" in rest and b"usr" in rest
        assert run.wait().exit_code == 7


def test_input_ends_and_both_streams_are_told_apart(remote: RemoteEnv) -> None:
    with remote.open(Spec()) as box:
        run = box.start("wc -c; echo bad >&2; exit 3", stdin=None)
        with box.attach(run) as attached:
            attached.write(bytes(300_000))
            attached.close_stdin()
            events = list(attached)
        told = [(event.type, event.data) for event in events if event.data]
        assert sorted(told) == [("err", b"bad\n"), ("out", b"300000\n")]
        assert events[-1].more["exit_code"] == 3


def test_who_comes_back_goes_on_from_where_it_was(remote: RemoteEnv) -> None:
    with remote.open(Spec()) as box:
        run = box.start("echo one; read x; echo $x", stdin=None)
        with box.attach(run) as attached:
            said_until(attached, b"one\n")
        with box.attach(run, after=2) as attached:
            attached.write(b"two\n")
            assert b"".join(event.data for event in attached) == b"two\n"
        with box.attach(run) as attached:
            assert b"".join(event.data for event in attached) == b"one\ntwo\n"


def test_events_are_numbered_as_the_server_does_wherever_one_begins(remote: RemoteEnv) -> None:
    with remote.open(Spec()) as box:
        run = box.start("echo one; read x; echo $x", stdin=None)
        with box.attach(run) as attached:
            said_until(attached, b"one\n")
            attached.write(b"two\n")
            rest = [event.seq for event in attached]
        with box.attach(run, after=2) as attached:
            assert attached._wire.ping_timeout is None  # a server that waits for the command does not answer
            assert [event.seq for event in attached] == rest == [event.seq for event in run.events(2)]


def test_what_was_said_before_leaving_comes_to_the_command(remote: RemoteEnv) -> None:
    with remote.open(Spec()) as box:
        run = box.start("until [ -e go ]; do sleep 0.05; done; wc -c", stdin=None)
        with box.attach(run) as attached:
            attached.write(bytes(2_000_000))
            attached.close_stdin()
        box.write("go", b"")
        assert run.wait(20).stdout.strip() == b"2000000"


def test_leaving_ends_the_command_only_if_asked_to(remote: RemoteEnv) -> None:
    with remote.open(Spec()) as box:
        stays, goes = box.start("sleep 50"), box.start("sleep 50")
        box.attach(stays).close()
        box.attach(goes, kill_on_detach=True).close()
        assert goes.wait(20).reason == "cancelled"
        with pytest.raises(SandboxError, match="still running"):
            stays.wait(0)


def test_what_means_nothing_ends_the_connection_and_not_the_command(remote: RemoteEnv) -> None:
    with remote.open(Spec()) as box:
        run = box.start("cat", stdin=None)
        for nonsense in ("{", "[]", '{"resize":"x"}', '{"resize":[0,0]}', b"\5x", b""):
            attached = box.attach(run)
            attached._send(nonsense)
            with pytest.raises(SandboxError) as caught:
                list(attached)
            assert caught.value.fault.code == "infra.connection_lost"
        run.close_stdin()
        assert run.wait(20).ok


def test_a_command_that_is_not_there_is_refused_by_name(remote: RemoteEnv) -> None:
    with remote.open(Spec()) as box:
        run = box.start("true")
        run.id = "ex-none"
        with pytest.raises(SandboxError) as caught:
            list(box.attach(run))
        assert caught.value.fault.code == "client.no_such_exec"


def test_another_tenant_cannot_attach(rest: Rest, remote: RemoteEnv) -> None:
    with remote.open(Spec()) as box, RemoteEnv(rest.url, rest.keyed(tenant="other").key) as other:
        run = box.start("cat", stdin=None)
        url = f"{rest.url}/v1/sandboxes/{box.id}/execs/{run.id}/attach"
        with pytest.raises(SandboxError, match="no sandbox"):
            list(Attachment(url, other.client.headers))
        with pytest.raises(SandboxError, match="403"):
            Attachment(url, {"Authorization": "Bearer wrong"})
        run.cancel()


def test_a_shell_in_this_terminal(rest: Rest) -> None:
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "orchard_cli", "env", "shell", "new", "--url", rest.url]
    shell = subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, env={**os.environ, "ORCHARD_ENV_API_KEY": rest.key}
    )
    os.close(slave)
    os.write(master, b"echo early-$((6*7))\r")  # typed before there is a prompt
    said = b""

    def hear() -> bool:
        nonlocal said
        if select.select([master], [], [], 0)[0]:
            with suppress(OSError):  # nobody holds the other end any more
                said += os.read(master, 65536)
        return b"$ " in said or b"# " in said

    assert settled(hear, True, 30.0), said
    assert settled(lambda: (hear(), b"early-42" in said)[1], True, 10.0), said
    os.write(master, b"echo $((6*7))-$(tty); sleep 60\r")
    assert settled(lambda: (hear(), b"42-/dev/pts/" in said)[1], True, 10.0), said
    os.write(master, b"\x03")  # ends the sleep, and not the shell
    os.write(master, b"exit 5\r")
    assert settled(lambda: (hear(), shell.poll())[1], 5, 20.0) == 5, said
    os.close(master)
