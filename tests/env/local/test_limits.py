"""Bounds on what one sandbox can take, and that it goes on after it ran into them."""

from collections.abc import Iterator
from contextlib import suppress

import pytest

from orchard_cli.env.execution import Execution
from orchard_cli.env.local.local import LocalEnv
from orchard_cli.env.sandbox import Limits, Sandbox, Spec
from orchard_cli.errors import SandboxError

EAT = "python3 -c 'x = []\nwhile True: x.append(bytearray(4_000_000))'"


@pytest.fixture
def small(env: LocalEnv) -> Iterator[Sandbox]:
    with env.open(Spec(limits=Limits(memory_mb=128, pids=40, disk_mb=24))) as opened:
        yield opened


def works(sandbox: Sandbox) -> bool:
    return sandbox.exec("echo ok").stdout == b"ok\n"


def test_memory_bomb_is_an_oom(small: Sandbox) -> None:
    assert small.exec(EAT, timeout_s=30).reason == "oom"
    assert works(small)


def test_memory_of_many_processes_counts_together(small: Sandbox) -> None:
    hold = "python3 -c 'x = b\"x\" * 50_000_000; import time; time.sleep(2)'"
    script = f"{hold} & {hold} & {hold} & {hold} & wait %1 && wait %2 && wait %3 && wait %4 && echo all lived"
    assert small.exec(script, timeout_s=30).stdout == b""
    assert works(small)


def test_fork_bomb_is_bounded_and_can_be_ended(small: Sandbox) -> None:
    result = small.exec("bomb() { bomb | bomb & }; bomb; sleep 5", timeout_s=0.5)
    assert result.reason in ("timeout", "pid_limit")
    assert works(small)
    assert small.exec("pgrep -c bash").stdout.strip() <= b"2"


def test_too_many_processes_is_a_pid_limit(small: Sandbox) -> None:
    script = "import os, time\nfor _ in range(100):\n    if os.fork() == 0: time.sleep(3); os._exit(0)"
    result = small.exec(["python3", "-c", script], timeout_s=20)
    assert (result.reason, result.exit_code) == ("pid_limit", None)


def test_full_disk_is_told_and_can_be_cleared(small: Sandbox) -> None:
    result = small.exec("head -c 50M /dev/zero >big")
    assert (result.reason, result.exit_code) == ("disk_quota", None)
    with pytest.raises(SandboxError) as caught:
        small.write("more", b"x" * 100_000)
    assert (caught.value.fault.code, caught.value.fault.attributable) == ("workload.disk_quota", "model")
    assert small.exec("rm big; head -c 10M /dev/zero >ok").ok
    small.write("more", b"x" * 100_000)


@pytest.mark.parametrize("place", ["/tmp", "/dev/shm", "/usr/lib", "/var/tmp", "/root"])
def test_no_place_holds_more_than_the_disk(small: Sandbox, place: str) -> None:
    assert not small.exec(f"head -c 50M /dev/zero >{place}/big").ok


def test_success_is_success_even_near_the_limit(small: Sandbox) -> None:
    assert small.exec("head -c 50M /dev/zero >big; true").reason == "exited"
    assert small.exec(f"({EAT}) 2>/dev/null; true", timeout_s=30).reason in ("exited", "oom")


def test_cpu_share_is_kept_where_the_kernel_can(env: LocalEnv) -> None:
    if "cpu" not in env.describe()["cgroups"]:  # type: ignore[operator]
        pytest.skip("no cpu controller")
    with env.open(Spec(limits=Limits(cpus=0.25))) as opened:
        script = "import time; a = time.time()\nwhile time.time() - a < 1: pass\nprint(time.process_time())"
        assert float(opened.exec(["python3", "-c", script]).stdout) < 0.6


def test_limits_of_the_environment_hold_for_specs_without_any() -> None:
    with LocalEnv(limits=Limits(disk_mb=8)) as env, env.open(Spec()) as opened:
        assert opened.exec("head -c 20M /dev/zero >big").reason == "disk_quota"


def test_what_is_slow_for_want_of_cpu_is_not_taken_for_stuck() -> None:
    """Neither a command that is long in starting, nor one that is long in dying, ends what runs beside it."""
    with LocalEnv(isolation="bwrap") as env, env.open(Spec(limits=Limits(cpus=0.05))) as box:
        hogs = [box.start("while :; do :; done", timeout_s=900) for _ in range(24)]
        for _ in range(2):
            assert box.exec("echo on", timeout_s=200).stdout == b"on\n"
        hogs.pop().cancel()
        hogs[0].cancel()
        assert hogs[0].wait(60).reason == "cancelled"
        running = [hog for hog in hogs[1:] if not _over(hog)]
        assert len(running) == len(hogs) - 1


def _over(execution: Execution) -> bool:
    with suppress(SandboxError):
        execution.wait(0.01)
        return True
    return False
