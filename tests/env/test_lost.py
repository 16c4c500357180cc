"""A sandbox whose agent dies: each command that ran there has a record that says so, embedded and over REST.

Part of the conformance suite, in a file of its own since it kills what it looks at.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchard_cli.env.local.local import LocalEnv
from orchard_cli.env.remote.env import RemoteEnv
from orchard_cli.env.sandbox import Env, Spec
from orchard_cli.env.service.serve import serving
from orchard_cli.env.service.service import Settings
from orchard_cli.errors import SandboxError

from .conftest import children

ISOLATION = ("bwrap", "process")


@contextmanager
def embedded(local: LocalEnv, folder: Path) -> Iterator[Env]:
    yield local


@contextmanager
def over_rest(local: LocalEnv, folder: Path) -> Iterator[Env]:
    with serving(local, Settings(folder / "state", "key")) as url, RemoteEnv(url, "key") as env:
        yield env


@pytest.fixture(params=ISOLATION)
def local(request: pytest.FixtureRequest) -> Iterator[LocalEnv]:
    with LocalEnv(isolation=request.param) as env:
        yield env


@pytest.mark.parametrize("way", [embedded, over_rest])
def test_commands_of_a_lost_agent_end_as_such(local: LocalEnv, way, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    with way(local, tmp_path) as env:
        box = env.open(Spec())
        execution = box.start("echo said; exec sleep 60.5", timeout_s=90)
        events = execution.events()
        while (event := next(events)).type != "out":
            pass
        assert event.data == b"said\n"
        os.kill(children(local.spawner_pid)[-1], signal.SIGKILL)
        began = time.monotonic()
        last = list(events)[-1]
        assert (last.type, last.more["reason"], last.more["exit_code"]) == ("exit", "agent_lost", None)
        result = execution.wait()
        assert (result.reason, result.exit_code, result.ok) == ("agent_lost", None, False)
        with pytest.raises(SandboxError) as caught:
            box.exec("true")
        fault = caught.value.fault
        assert fault.code in ("infra.sandbox_lost", "infra.agent_lost") and fault.attributable == "infra"
        assert time.monotonic() - began < 20  # known, not waited for
        box.close()
        with env.open(Spec()) as fresh:
            assert fresh.exec("echo on").stdout == b"on\n"
