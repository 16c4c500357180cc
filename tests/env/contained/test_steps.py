"""A kill, a delay or a want of something between two steps: nothing is lost in silence, and nothing is left."""

import os
import resource
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from orchard_cli.env.agent.passage import Passage
from orchard_cli.env.contained import gvisor, held, holding
from orchard_cli.env.contained.choose import any_tier, contained
from orchard_cli.env.contained.env import ContainedEnv
from orchard_cli.env.contained.held import Held
from orchard_cli.env.contained.keeper import Kept
from orchard_cli.env.contained.making import Making
from orchard_cli.env.local import leftovers
from orchard_cli.env.local.lasting import Lasting
from orchard_cli.env.sandbox import Limits, Spec
from orchard_cli.errors import ConfigError, SandboxError

from ..conftest import cgroups, settled
from .test_contained import traces

UNVISITED = """
import time
from orchard_cli.env.contained.choose import contained
from orchard_cli.env.contained.podman import Podman
from orchard_cli.env.sandbox import Spec
env = contained("container")
def never(*_):
    print(env.base.name, flush=True)
    time.sleep(600)
Podman._visit = never
env.open(Spec())
"""


def opened(tier: str, lasting: Lasting | None = None) -> ContainedEnv:
    try:
        env = any_tier(tier, lasting=lasting)
    except ConfigError as error:
        pytest.skip(str(error))
    assert isinstance(env, ContainedEnv)
    return env


@pytest.mark.parametrize("answers", [True, False])
def test_only_what_stands_still_is_helped(answers: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody listened for a while: the word that a process had been started found no room, and all was killed."""
    ours, theirs = socket.socketpair()
    freed: list[bool] = []
    one = Held(ours, lambda: None, lambda: "", lambda: freed.append(True))
    passage = Passage(str(theirs.fileno()))
    passage.setblocking(False)
    passage.beat(True)
    one.look(lambda: answers)
    for _ in range(500):
        passage.beat(False)
        passage.beat(True)
    passage.beat(False)
    one.look(lambda: answers)
    monkeypatch.setattr(held, "STUCK_S", 0.0)
    one.look(lambda: answers)
    assert freed == ([] if answers else [True])
    one.end()
    ours.close()
    theirs.close()
    passage._control.close()


def test_whoever_stands_still_can_be_dialled_in_vain_and_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its socket is full of connections that it does not take: who wanted one more kept everybody else waiting."""
    monkeypatch.setattr(held, "DIAL_S", 0.0)
    ours, theirs = socket.socketpair()
    ended, said, taken = list[bool](), list[object](), list[socket.socket]()
    one = Held(ours, lambda: ended.append(True), lambda: "", lambda: None)

    def use() -> None:
        with pytest.raises(SandboxError) as caught, one.shut() as dial:
            while True:
                taken.append(dial())
        said.append(caught.value.fault.code)
        with pytest.raises(SandboxError):
            one.dial()
        said.append(one.alive())
        one.end()

    user = threading.Thread(target=use, daemon=True)
    user.start()
    user.join(60)
    assert (said, ended) == (["infra.agent_silent", True], [True])
    for sock in (theirs, *taken):
        sock.close()


@pytest.mark.parametrize("runsc", [["/nonexistent"], ["/bin/sh", "-c", "exec sleep 600"]])
def test_a_runtime_that_fails_is_a_typed_error(
    runsc: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a fork was a traceback; and whoever looks after all sandboxes looked never again."""
    monkeypatch.setattr(gvisor, "FREEZE_S", 0.1)
    monkeypatch.setattr(gvisor, "END_S", 0.1)
    runtime = object.__new__(gvisor.Gvisor)
    runtime._runsc = runsc
    making = Making("x", tmp_path, tmp_path, [], "/w", Limits(), [])
    with pytest.raises(SandboxError) as caught:
        runtime.freeze(making, tmp_path)
    assert caught.value.fault.code == "infra.freeze_failed"
    with pytest.raises(SandboxError):
        runtime.wipe("x")
    monkeypatch.setattr(gvisor, "_run", lambda argv: "[1, 2]")
    with pytest.raises(SandboxError):
        runtime._free("x")


def test_what_cannot_be_kept_is_told(tmp_path: Path) -> None:
    """Without a descriptor for it, a sandbox would have died with its driver, and nobody would have known why."""
    one = holding.begin()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        one.ask("hello", base=str(tmp_path), keep_s=60.0, hello={})
        one.ask("keep", ours, name="first")
        resource.prlimit(one.pid, resource.RLIMIT_NOFILE, (3, 3))
        for what in (lambda: one.ask("keep", ours, name="second"), lambda: one.ask("note", name="second", note="x")):
            with pytest.raises(SandboxError) as caught:
                what()
            assert caught.value.fault.code == "infra.not_kept"
        one.ask("note", name="first", note="x")
    one.close()


@pytest.mark.parametrize("tier", ["container", "gvisor"])
def test_a_living_driver_keeps_its_sandboxes_when_their_keeper_dies(tier: str, tmp_path: Path) -> None:
    """The folder bears the number of the one who died: whoever started next took it for a leftover."""
    with opened(tier, Lasting(tmp_path, 60.0)) as env, env.open(Spec()) as box:
        assert env._holding is not None
        os.kill(env._holding.pid, signal.SIGKILL)
        assert settled(lambda: leftovers.started(int(env.base.name.split("-")[2])), 0) == 0
        subprocess.run([sys.executable, "-c", "from orchard_cli.env.local import leftovers; leftovers.sweep()"])
        assert env.base.exists()
        assert box.exec("echo on").stdout == b"on\n"
    assert settled(lambda: traces(env.base.name), []) == []
    assert not env.base.exists()


def test_a_container_that_nobody_came_to_is_swept() -> None:
    opened("container").close()
    with subprocess.Popen([sys.executable, "-c", UNVISITED], stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        name = driver.stdout.readline().strip()
        assert traces(name)
        driver.kill()
    contained("container").close()
    assert settled(lambda: traces(name), [], seconds=30) == []


def test_a_runtime_that_is_late_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened("gvisor") as env:
        boxes = [env.open(Spec()) for _ in range(2)]
        name = boxes[0].id.partition("-")[2]

        def late(argv: list[str]) -> None:
            raise SandboxError(f"{argv[0]} did not end in time", code="infra.create_failed")

        monkeypatch.setattr(gvisor, "_quiet", late)
        boxes[0].close()
        assert settled(lambda: traces(name), []) == [] and not (env.base / name).exists()
        assert not [place for place in cgroups(env.base.name) if place.name == name]
    assert settled(lambda: traces(env.base.name), []) == [] and not env.base.exists()


@pytest.mark.parametrize("tier", ["gvisor", "container"])
def test_a_sandbox_that_comes_to_stand_while_all_are_closed_is_closed_too(
    tier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = opened(tier)
    add = env.keeper.add

    def late(kept: Kept) -> None:
        env.close()
        add(kept)

    monkeypatch.setattr(env.keeper, "add", late)
    with pytest.raises(SandboxError):
        env.open(Spec())
    assert settled(lambda: traces(env.base.name), [], seconds=30) == []
