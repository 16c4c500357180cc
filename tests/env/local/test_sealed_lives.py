"""Sealed forks: ends in the midst, limits, what stands in the way, and lives beyond their driver and spawner."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from orchard_cli.env.local.lasting import Lasting
from orchard_cli.env.local.local import LocalEnv
from orchard_cli.env.local.spawner import kernel, roots, sealing
from orchard_cli.env.sandbox import Bind, Limits, Sandbox, Spec

from ..conftest import alive, settled
from .sealed import MANY, NEW_ENOUGH, out, way

pytestmark = NEW_ENOUGH


def test_the_origin_may_end_while_it_is_forked(env: LocalEnv) -> None:
    for _ in range(4):
        box = env.open(Spec())
        out(box, MANY)
        made: list[Sandbox] = []

        def forked(box: Sandbox = box, made: list[Sandbox] = made) -> None:
            made.append(box.fork())

        threads = [threading.Thread(target=forked) for _ in range(2)]
        for thread in threads:
            thread.start()
        out(box, "true")
        for thread in threads:
            thread.join()
        box.close()
        assert [len(fork.list("many")) for fork in made] == [220, 220]
        for fork in made:
            fork.close()


def test_limits_hold_for_what_each_has_written_since() -> None:
    fill = "head -c {}M /dev/zero | tr '\\0' x >{}"
    with LocalEnv(limits=Limits(memory_mb=200, disk_mb=64)) as env, env.open(Spec()) as box:
        out(box, fill.format(40, "f"))
        with box.fork() as fork:
            assert way(fork) == "sealed"
            for sandbox in (box, fork):
                out(sandbox, "echo more >>f; rm f; " + fill.format(15, "g"))
                assert sandbox.exec(fill.format(80, "h")).reason in ("disk_quota", "exited")
                assert 1 < int(out(sandbox, "stat -c %s h")) < 64 << 20
            assert out(fork, "stat -c %s g") == f"{15 << 20}\n"


def test_a_bind_below_the_work_directory_is_shown_and_makes_it_a_copy(env: LocalEnv, tmp_path: Path) -> None:
    (tmp_path / "shown").mkdir()
    (tmp_path / "shown" / "f").write_text("shown")
    with env.open(Spec(binds=(Bind(tmp_path / "shown", "/workspace/a/b"),))) as box:
        out(box, MANY)
        with box.fork() as fork:
            assert way(fork) == "copied: processes use the work directory"
            assert out(fork, "cat a/b/f; ls many | wc -l; touch a/b/x || echo no") == "shown220\nno\n"


def test_a_work_directory_that_was_moved_is_not_taken_for_another(env: LocalEnv) -> None:
    with env.open(Spec(workdir="/deep/work")) as box:
        out(box, f"{MANY}; cd /; mv /deep /moved; mkdir /x; ln -s /proc /x/work; ln -s /x /deep")
        try:
            fork = box.fork()
        except Exception as error:
            assert error.fault.code == "sandbox.broken_by_workload"  # type: ignore[attr-defined]
        else:
            assert way(fork) == "copied: the work directory is out of reach"
            fork.close()
        assert out(box, "cd /; ls /moved/work/many | wc -l; ls -d /proc/1") == "220\n/proc/1\n"


IN_CHILD = """
import os, sys
sys.path.insert(0, sys.argv[1])
from orchard_cli.env.local.spawner import kernel, roots, sealing
base = sys.argv[2]
kernel.unshare(kernel.CLONE_NEWNS)
kernel.mount("none", "/", "", kernel.MS_REC | kernel.MS_PRIVATE)
kernel.mount("tmpfs", base, "tmpfs")
os.chdir(base)
for name in ("tree", "place"): os.mkdir(name)
changes, tree = os.open(".", os.O_RDONLY), os.open("tree", os.O_RDONLY)
roots.overlay([tree], changes, "work", "place", userxattr=False)
old = os.stat("place").st_dev
held = open("place/f", "w")
work = os.open("work", os.O_RDONLY)
origin = sealing.Origin(changes, (), "work", "work.1", [tree], work, old, "", -1, -1, "", False)
new = sealing._overlay(origin, work)
device = os.fstat(new).st_dev
assert sealing.swap("place", new, old, device) == sealing.BUSY and os.stat("place").st_dev == old
place = sealing._place("place", old)
kernel.slip_beneath(new, place)
os.close(place)
assert not sealing._taken_away("place")  # as if somebody had come between
held.write("still here"); held.close()
assert os.stat("place").st_dev == old and open("work/f").read() == open("place/f").read() == "still here"
assert sealing._taken_away("place") and os.stat("place").st_dev == device
open("place/f", "a").write("!")
assert (open("work/f").read(), open("work.1/f").read()) == ("still here", "still here!")
try: sealing.swap("place", new, old, device)
except OSError: print("done")
"""


def test_who_comes_between_the_question_and_the_deed_loses_nothing(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounts by itself")
    source = str(Path(sealing.__file__).parents[4])
    done = subprocess.run([sys.executable, "-c", IN_CHILD, source, str(tmp_path)], capture_output=True, text=True)
    assert done.stdout == "done\n", done.stderr


DRIVER = """
import json, sys, time
from pathlib import Path
from orchard_cli.env.local.lasting import Lasting
from orchard_cli.env.local.local import LocalEnv
from orchard_cli.env.sandbox import Spec
env = LocalEnv(lasting=Lasting(Path(sys.argv[1]), 60.0) if sys.argv[1] else None)
box = env.open(Spec())
box.exec(sys.argv[2] + "; echo 1 >f")
fork = box.fork()
fork.exec("echo 2 >>f")
for name, one in (("box", box), ("fork", fork)): one.note(name)
print(json.dumps([env.spawner_pid, str(env.base), fork.way]), flush=True)
time.sleep(60)
"""


def test_a_killed_driver_and_spawner_leave_nothing_that_the_next_start_does_not_remove() -> None:
    with driven("") as (driver, spawner, base):
        os.kill(spawner, signal.SIGKILL)
        os.kill(driver.pid, signal.SIGKILL)
    assert settled(lambda: alive(spawner), False) is False
    with LocalEnv():
        assert not base.exists()
    assert str(base) not in Path("/proc/self/mountinfo").read_text()


def test_forks_that_outlive_their_driver_are_whole_for_the_next(tmp_path: Path) -> None:
    with driven(str(tmp_path)) as (driver, _, base):
        os.kill(driver.pid, signal.SIGKILL)
    with LocalEnv(lasting=Lasting(tmp_path, 60.0)) as env:
        assert env.base == base
        found = {heir.note: heir.open(Spec()) for heir in env.left}
        assert (found["box"].read("f"), found["fork"].read("f")) == (b"1\n", b"1\n2\n")
        assert "+2" in found["fork"].diff() and "+2" not in found["box"].diff()
        found["box"].close()
        out(found["fork"], MANY.replace("many", "more"))
        with found["fork"].fork() as third:
            assert way(third) == "sealed"
            assert out(third, "cat f; ls many | wc -l; ls more | wc -l") == "1\n2\n220\n220\n"
        found["fork"].close()
    assert not base.exists()


class driven:  # noqa: N801 - a context
    """A driver with a sealed fork: (it, its spawner's pid, the folder of its environment)."""

    def __init__(self, folder: str):
        self._driver = subprocess.Popen([sys.executable, "-c", DRIVER, folder, MANY], stdout=subprocess.PIPE)

    def __enter__(self) -> "tuple[subprocess.Popen[bytes], int, Path]":
        assert self._driver.stdout is not None
        spawner, base, made = json.loads(self._driver.stdout.readline())
        assert made == "sealed"
        return self._driver, spawner, Path(base)

    def __exit__(self, *exc: object) -> None:
        self._driver.kill()
        self._driver.wait()
        assert self._driver.stdout is not None
        self._driver.stdout.close()


def test_a_file_system_without_its_mount_can_be_made_larger(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounts by itself")
    assert roots.overlay_options(7, "work", userxattr=True)[2] == ("userxattr", "")
    code = (
        f"import os, sys; sys.path.insert(0, {str(Path(sealing.__file__).parents[4])!r})\n"
        "from orchard_cli.env.local.spawner import kernel\n"
        "kernel.unshare(kernel.CLONE_NEWNS); kernel.mount('none', '/', '', kernel.MS_REC | kernel.MS_PRIVATE)\n"
        f"kernel.mount('tmpfs', {str(tmp_path)!r}, 'tmpfs', 0, 'size=1m')\n"
        f"fd = kernel.detached(os.open({str(tmp_path)!r}, os.O_RDONLY)); kernel.umount({str(tmp_path)!r})\n"
        "kernel.resize(fd, 3 << 20); print(os.fstatvfs(fd).f_blocks * os.fstatvfs(fd).f_frsize)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == f"{3 << 20}\n"
    assert kernel.MNT_EXPIRE == 4
