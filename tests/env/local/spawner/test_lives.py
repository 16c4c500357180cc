"""What one driver or one sandbox does wrong ends no other sandbox."""

import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from orchard_cli.env.agent.loop import Loop
from orchard_cli.env.local import elder, probe
from orchard_cli.env.local.lasting import Lasting
from orchard_cli.env.local.link import Link
from orchard_cli.env.local.local import LocalEnv
from orchard_cli.env.local.sandbox import LocalSandbox
from orchard_cli.env.local.spawner import job
from orchard_cli.env.local.spawner.enter import Door, Plan
from orchard_cli.env.local.spawner.ground import strike
from orchard_cli.env.local.spawner.job import Job
from orchard_cli.env.local.spawner.main import Server
from orchard_cli.env.sandbox import Spec
from orchard_cli.errors import ConfigError, SandboxError


def ended() -> int:
    """The number of a process that is gone."""
    process = subprocess.Popen([sys.executable, "-S", "-c", ""])
    process.wait()
    return process.pid


def test_a_successor_that_died_before_it_was_heard_ends_nothing(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    passage, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    folder = os.open(tmp_path, os.O_PATH | os.O_DIRECTORY)
    server = Server(theirs, passage.fileno(), os.getpid())
    server._outlive(folder, 60.0)
    server._lost()
    wire, other = socket.socketpair()
    assert server._take(wire.fileno(), far.fileno(), ended()) is False
    assert server._take(wire.detach(), os.dup(far.fileno()), os.getpid()) is True
    other.close()
    server._traffic()  # its end is heard, and the next one may come
    assert server._driver == -1
    assert server._succession is not None
    server._succession._listener.close()
    for sock in (ours, passage, far):
        sock.close()
    os.close(folder)


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_a_sandbox_that_dies_as_it_comes_to_stand_ends_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, flag, wrapper = probe.bubblewrap(""), tmp_path / "dies", tmp_path / "bwrap"
    dies = "echo '{\"child-pid\": 4194304}' >&3; echo"  # no process has that number
    wrapper.write_text(f'#!/bin/sh\nif [ -e {flag} ]; then {dies}; else exec {real[0]} "$@"; fi\n')
    wrapper.chmod(0o755)
    monkeypatch.setattr(probe, "bubblewrap", lambda hint: [str(wrapper), *real[1:]])
    with LocalEnv() as env, env.open(Spec()) as box:
        flag.touch()
        with pytest.raises(SandboxError):
            env.open(Spec())
        flag.unlink()
        assert box.exec("echo alive").stdout == b"alive\n"
        env.open(Spec()).close()


def test_whoever_is_slow_to_answer_is_not_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the next server took silence for an empty folder, all sandboxes were lost."""
    lasting = Lasting(tmp_path, 600.0)
    first = LocalEnv("process", lasting=lasting)
    box = first.open(Spec())
    assert isinstance(box, LocalSandbox)
    box.note("kept")
    first._leave()
    os.kill(first.spawner_pid, signal.SIGSTOP)
    try:
        with monkeypatch.context() as patch, pytest.raises(ConfigError, match="does not answer"):
            patch.setattr(elder, "ANSWER_S", 0.1)
            LocalEnv("process", lasting=lasting)
    finally:
        os.kill(first.spawner_pid, signal.SIGCONT)
    with LocalEnv("process", lasting=lasting) as second:
        assert [heir.note for heir in second.left] == ["kept"]
    box._channel.close()
    first._link.process.wait()


def test_an_operation_that_goes_by_a_detour_is_ended_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without root, the child that we wait for is in our group: stopped from inside, it was waited for for ever."""

    def fork(*more: object) -> int:
        if pid := os.fork():
            return pid
        signal.alarm(60)
        signal.pause()
        os._exit(1)

    monkeypatch.setattr(job, "_fork_into", fork)
    loop, ended = Loop(), list[Job]()
    slow = Job(loop, Door(), Plan(lambda: None), ended.append, timeout=600.0)
    slow.kill()
    loop.after(0.0, lambda: loop.watch(slow._pidfd, lambda: (slow._ended(), loop.stop())))  # type: ignore[func-returns-value]
    loop.after(30.0, loop.stop)
    loop.run()
    assert [one.exit_code for one in ended] == [-signal.SIGKILL]


def test_a_strike_needs_no_small_descriptor() -> None:
    """A spawner of many sandboxes has thousands open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2048:
        pytest.skip("this user may not open that many")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
    more = [os.dup(proc) for _ in range(1100)]
    try:
        strike(proc, lambda: None)
    finally:
        for fd in (proc, *more):
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_descriptor_that_got_lost_is_missed_by_its_owner_alone() -> None:
    """Whoever came first took the loss for the end of all, and the owner waited for ever, with the lock held."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    link = object.__new__(Link)
    link._passage, link._passed, link._lock = ours, {}, threading.Lock()
    theirs.send((6).to_bytes(8, "big"))
    socket.send_fds(theirs, [(5).to_bytes(8, "big")], [theirs.fileno()])
    os.close(link.passed(5))
    with pytest.raises(SandboxError, match="no descriptor"):
        link.passed(6)
    ours.close()
    theirs.close()
