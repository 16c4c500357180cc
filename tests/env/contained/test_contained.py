"""What is special about sandboxes whose agent lives inside: their end, their limits, and what they refuse."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchard_cli import schema
from orchard_cli.env import open_env
from orchard_cli.env.channel import Channel
from orchard_cli.env.contained.choose import contained
from orchard_cli.env.contained.env import ContainedEnv
from orchard_cli.env.network.endpoint import ModelEndpoint
from orchard_cli.env.sandbox import Limits, Spec
from orchard_cli.errors import ConfigError, SandboxError

from ..conftest import settled

DRIVER = """
import sys, time
from orchard_cli.env.contained.choose import contained
from orchard_cli.env.sandbox import Spec
env = contained(sys.argv[1])
box = env.open(Spec())
box.exec("sleep 71.25 &")
print(env.base.name, flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module", params=["container", "gvisor"])
def place(request: pytest.FixtureRequest) -> Iterator[ContainedEnv]:
    try:
        env = contained(request.param)
    except ConfigError as error:
        pytest.skip(str(error))
    with env:
        yield env


def traces(name: str) -> list[str]:
    """Processes, mounts and containers of an environment or sandbox of that name."""
    found = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if f"{name}/store/overlay-" in line]
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = place.read_bytes()
        except OSError:
            continue
        if name.encode() in words and int(place.parent.name) != os.getpid():
            found.append(words.replace(b"\0", b" ").decode(errors="replace")[:200])
    return found


def test_nothing_is_left_of_a_closed_sandbox(place: ContainedEnv) -> None:
    box = place.open(Spec())
    name = box.id.partition("-")[2]
    box.exec("setsid sleep 72.25 & touch /tmp/x")
    assert traces(name)
    box.close()
    assert settled(lambda: traces(name), []) == []
    assert not (place.base / name).exists()


def test_when_the_driver_is_killed_its_sandboxes_end(place: ContainedEnv) -> None:
    tier = str(place.describe()["isolation"])
    with subprocess.Popen([sys.executable, "-c", DRIVER, tier], stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        name = driver.stdout.readline().strip()
        assert name and traces(name)
        driver.send_signal(signal.SIGKILL)
    assert settled(lambda: traces(name), [], seconds=30) == []


def test_too_much_memory_is_the_workloads_own_fault(place: ContainedEnv) -> None:
    with place.open(Spec(limits=Limits(memory_mb=128, disk_mb=16))) as box:
        script = "import time; x = bytearray(400 << 20); time.sleep(20)"
        try:
            result = box.exec(["python3", "-c", script], timeout_s=60)
            assert result.reason == "oom"
            assert box.exec("echo alive", timeout_s=30).stdout == b"alive\n"
        except SandboxError as error:  # all of it went at once
            assert (error.fault.code, error.fault.attributable) == ("workload.oom", "model")


def test_too_many_processes_are_the_workloads_own_fault(place: ContainedEnv) -> None:
    with place.open(Spec(limits=Limits(pids=24))) as box:
        result = box.exec("for i in $(seq 60); do sleep 73.25 & done; wait", timeout_s=60)
        assert result.reason == "pid_limit"
        assert box.exec("echo alive", timeout_s=30).stdout == b"alive\n"


def test_a_fork_that_is_slow_to_begin_loses_nothing(place: ContainedEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine, what had changed first was taken for unchanged."""
    ask = Channel.ask

    def slowly(self: Channel, method: str, path: str, *args: Any, **more: Any) -> Any:
        reply = ask(self, method, path, *args, **more)
        time.sleep(1.5 if path == "/v1/health" else 0)
        return reply

    monkeypatch.setattr(Channel, "ask", slowly)
    with place.open(Spec()) as box:
        box.write("first", b"1")
        with box.fork() as twin:
            assert twin.read("first") == b"1"


def test_what_the_tier_cannot_do_is_a_typed_error(place: ContainedEnv) -> None:
    for spec in (
        Spec(network="allowlist", allow=("x.test",)),
        Spec(model=ModelEndpoint("http://127.0.0.1:1/v1", "NO_SUCH_KEY")),
        Spec(image="no/such:1"),
    ):
        with pytest.raises(SandboxError) as caught:
            place.open(spec)
        assert (caught.value.fault.code, caught.value.fault.attributable) == ("client.bad_spec", "client")


def test_a_colon_in_a_path_is_a_colon_or_is_refused(place: ContainedEnv) -> None:
    """Where the runtime takes it for the beginning of options."""
    try:
        with place.open(Spec(workdir="/w:x")) as box:
            assert box.exec("pwd").stdout == b"/w:x\n"
    except SandboxError as error:
        assert error.fault.code == "client.bad_spec"


@pytest.mark.parametrize("isolation", ["container", "gvisor"])
def test_a_network_that_the_tier_does_not_have_is_refused_before_anything_is_made(isolation: str) -> None:
    with pytest.raises(ConfigError) as caught:
        open_env(schema.Env(isolation=isolation, network="host"))
    assert "network" in str(caught.value)
