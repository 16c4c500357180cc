"""Many sandboxes, sudden deaths, and that nothing is left."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from orchard_cli import schema
from orchard_cli.env import open_env
from orchard_cli.env.local import leftovers
from orchard_cli.env.local.local import LocalEnv
from orchard_cli.env.sandbox import Sandbox, Spec
from orchard_cli.errors import ConfigError, SandboxError

from ..conftest import alive, cgroups, children, settled

DRIVER = """
import json, os, sys, time
from orchard_cli.env.local.local import LocalEnv
from orchard_cli.env.sandbox import Spec
env = LocalEnv()
boxes = [env.open(Spec()) for _ in range(2)]
boxes[0].exec("sleep 62 & setsid sleep 63 &")
if sys.argv[1] == "fork" and os.fork() == 0: time.sleep(60)
print(json.dumps([env.spawner_pid, str(env.base)]), flush=True)
boxes[1].exec("sleep 64")
"""


def descendants(pid: int) -> list[int]:
    found = [pid]
    for child in children(pid):
        found += descendants(child)
    return found


@pytest.mark.parametrize("workdir", ["/w\0x", "/w\ud800", "//", "//etc", "w"])
def test_a_path_that_cannot_be_is_refused_and_ends_nobody(env: LocalEnv, sandbox: Sandbox, workdir: str) -> None:
    with pytest.raises(SandboxError) as caught:
        env.open(Spec(workdir=workdir))
    assert (caught.value.fault.code, caught.value.fault.attributable) == ("client.bad_spec", "client")
    assert sandbox.exec("echo still").stdout == b"still\n"


def test_sixty_four_at_once_from_sixteen_threads(env: LocalEnv) -> None:
    gate = threading.Barrier(16)

    def lives(number: int) -> list[bytes]:
        boxes = [env.open(Spec()) for _ in range(4)]
        gate.wait()  # all 64 stand
        said = [box.exec(f"echo {number} >f; cat f; hostname").stdout for box in boxes]
        for box in boxes:
            box.close()
        return said

    with ThreadPoolExecutor(16) as pool:
        for number, said in enumerate(pool.map(lives, range(16))):
            assert said == [b"%d\nsandbox\n" % number] * 4


@pytest.mark.parametrize("how", ["plain", "fork"])
def test_killed_driver_takes_everything_along(how: str, tmp_path: Path) -> None:
    """Also when a forked child of the driver lives on and holds its sockets open."""
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, how], stdout=subprocess.PIPE, start_new_session=True)
    assert driver.stdout is not None
    spawner, base = json.loads(driver.stdout.readline())
    pids = descendants(spawner)
    assert len(pids) > 6
    os.kill(driver.pid, signal.SIGKILL)
    driver.wait()
    assert settled(lambda: [pid for pid in pids if alive(pid)], []) == []
    assert settled(lambda: (Path(base).exists(), cgroups(Path(base).name)), (False, [])) == (False, [])
    if how == "fork":
        os.killpg(driver.pid, signal.SIGKILL)
    driver.stdout.close()


def test_no_command_takes_the_blame_for_the_end_of_its_sandbox() -> None:
    """What begins while the sandbox ends finds neither room nor shell there: that is not the workload's doing."""
    faults = set()

    def begins(box: Sandbox) -> None:
        with pytest.raises(SandboxError) as caught:
            while True:
                box.exec("true")
        faults.add((caught.value.fault.code, caught.value.fault.attributable))

    for _ in range(6):
        with LocalEnv() as env, ThreadPoolExecutor() as pool:
            box = env.open(Spec())
            begun = [pool.submit(begins, box) for _ in range(4)]
            time.sleep(0.1)
            os.kill(env.spawner_pid, signal.SIGKILL)
            for each in begun:
                each.result(20)
            box.close()
    assert faults == {("infra.spawner_lost", "infra")}


def test_killed_spawner_is_an_infrastructure_fault_and_is_replaced() -> None:
    with LocalEnv() as env:
        box, name, faults = env.open(Spec()), env.base.name, []

        def waits() -> None:
            try:
                box.exec("sleep 65")
            except SandboxError as error:
                faults.append(error.fault)

        waiting = threading.Thread(target=waits)
        waiting.start()
        pids = settled(lambda: len(descendants(env.spawner_pid)) > 4, True) and descendants(env.spawner_pid)
        os.kill(env.spawner_pid, signal.SIGKILL)
        waiting.join(10)
        assert [(f.code, f.attributable, f.effect) for f in faults] == [("infra.spawner_lost", "infra", "unknown")]
        with pytest.raises(SandboxError) as caught:
            box.exec("true")
        assert (caught.value.fault.code, caught.value.fault.effect) == ("infra.spawner_lost", "none")
        box.close()
        assert settled(lambda: [pid for pid in pids[1:] if alive(pid)], []) == []
        with env.open(Spec()) as fresh:
            assert fresh.exec("echo ok").stdout == b"ok\n"
        assert cgroups(name) == []


def test_sandbox_killed_from_outside_is_an_infrastructure_fault(env: LocalEnv) -> None:
    box, faults = env.open(Spec()), []
    monitor = children(env.spawner_pid)[-2]  # the last one is the agent

    def waits() -> None:
        try:
            box.exec("sleep 66")
        except SandboxError as error:
            faults.append((error.fault.code, error.fault.attributable))

    waiting = threading.Thread(target=waits)
    waiting.start()
    settled(lambda: len(children(children(env.spawner_pid)[-1])), 1)
    os.kill(monitor, signal.SIGKILL)
    waiting.join(10)
    with pytest.raises(SandboxError) as caught:
        box.read("x")
    assert faults == [("infra.sandbox_lost", "infra")] and caught.value.fault.code == "infra.sandbox_lost"
    box.close()


def test_killed_agent_takes_its_sandbox_along_and_says_so(env: LocalEnv) -> None:
    box = env.open(Spec())
    assert box.exec("echo x >f; cat f").ok
    os.kill(children(env.spawner_pid)[-1], signal.SIGKILL)
    with pytest.raises(SandboxError) as caught:
        box.exec("true")
    assert (caught.value.fault.code, caught.value.fault.attributable) == ("infra.sandbox_lost", "infra")
    box.close()


def test_closing_ends_what_runs(env: LocalEnv) -> None:
    box, ends = env.open(Spec()), []

    def waits() -> None:
        try:
            ends.append(box.exec("sleep 67").reason)
        except SandboxError as error:
            ends.append(error.fault.code)

    waiting = threading.Thread(target=waits)
    waiting.start()
    settled(lambda: len(children(children(env.spawner_pid)[-1])), 1)
    box.close()
    waiting.join(10)
    assert ends == ["client.closed"]


def test_interrupt_at_the_terminal_leaves_the_spawner_to_its_driver(env: LocalEnv, sandbox: Sandbox) -> None:
    assert os.getsid(env.spawner_pid) == env.spawner_pid
    os.kill(env.spawner_pid, signal.SIGINT)
    assert sandbox.exec("echo ok").stdout == b"ok\n"


def test_closed_environment_opens_nothing_and_leaves_nothing() -> None:
    env = LocalEnv()
    box = env.open(Spec())
    box.exec("sleep 68 & echo x >f")
    pids = descendants(env.spawner_pid)
    env.close()
    env.close()
    box.close()
    assert not env.base.exists() and cgroups(env.base.name) == []
    assert [pid for pid in pids if alive(pid)] == []
    with pytest.raises(SandboxError, match="closed"):
        env.open(Spec())


def test_leftovers_of_the_dead_are_swept_and_others_spared() -> None:
    dead = subprocess.run(["true"], check=True) and 2**22 + 1
    gone = Path(tempfile.mkdtemp(prefix=f"orchard-env-{dead}-1-"))
    mine = Path(tempfile.mkdtemp(prefix=leftovers.prefix()))
    (gone / "file").write_text("x")
    leftovers.sweep()
    assert not gone.exists() and mine.exists()
    mine.rmdir()


def test_a_link_that_is_called_like_a_folder_of_the_dead_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody may put one where all may write."""
    closed = tmp_path / "theirs" / "closed"
    closed.mkdir(parents=True)
    closed.chmod(0o555)
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp" / f"orchard-env-{2**22 + 1}-1-x").symlink_to(closed.parent)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    leftovers.sweep()
    assert closed.stat().st_mode & 0o777 == 0o555


def test_a_sandbox_without_isolation_that_is_too_deep_is_cleared_away() -> None:
    """It ended the spawner, and what it left ended each later start on this machine."""
    with LocalEnv(isolation="process") as env:
        with env.open(Spec()) as box:
            box.exec(["python3", "-c", "import os\nfor _ in range(1200):\n    os.mkdir('dddd')\n    os.chdir('dddd')"])
            path = Path(box.workdir)
        assert not path.exists()
        with env.open(Spec()) as box:
            assert box.exec("echo on").ok


def test_a_folder_of_another_user_is_not_walked_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = tmp_path / f"orchard-env-{2**22 + 1}-1-x"
    theirs.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: theirs.stat().st_uid + 1)
    leftovers.sweep()
    assert theirs.exists()


def test_what_runs_in_the_cgroups_of_the_dead_is_ended_too(env: LocalEnv, sandbox: Sandbox) -> None:
    places = cgroups(env.base.name)
    if not places:
        pytest.skip("no cgroups here")
    name = f"orchard-env-{2**22 + 1}-1-left"
    group = Path(str(places[0]).partition(env.base.name)[0], name)
    (group / "1").mkdir(parents=True)
    with subprocess.Popen(["sleep", "300"]) as left:
        (group / "1" / "cgroup.procs").write_text(str(left.pid))
        folder = Path(tempfile.gettempdir(), name)
        folder.mkdir()
        leftovers.sweep()
        assert left.wait(10) == -9
    assert not group.exists() and not folder.exists()
    assert sandbox.exec("echo ok").stdout == b"ok\n"


def test_isolation_that_cannot_be_had_is_an_error_with_a_way_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = tmp_path / "bwrap"
    fake.write_text(
        "#!/bin/sh\ncase $1 in --help) echo --as-pid-1 --cap-drop --clearenv --info-fd --seccomp;; *) exit 1;; esac\n"
    )
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(ConfigError, match="bubblewrap.* ended") as caught:
        open_env(schema.Env())
    assert "env.isolation=process" in caught.value.hint
    fake.write_text("#!/bin/sh\necho old\n")
    with pytest.raises(ConfigError, match="too old"):
        open_env(schema.Env())


def test_proof_fails_when_a_sandbox_would_show_the_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A bubblewrap that shares the network in spite of what it is told."""
    fake = tmp_path / "bwrap"
    fake.write_text('#!/bin/bash\nexec /usr/bin/bwrap "${@/--unshare-net/--unshare-ipc}"\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(ConfigError, match="could not be proven on this machine: network"):
        LocalEnv()


def test_older_bubblewrap_is_helped_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One that cannot close user namespaces: we do."""
    fake = tmp_path / "bwrap"
    fake.write_text(
        '#!/bin/bash\n[ "$1" = --help ] && exec /usr/bin/bwrap --help | grep -v userns\nexec /usr/bin/bwrap "$@"\n'
    )
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with LocalEnv() as env, env.open(Spec()) as box:
        assert env.describe()["proven"]["namespaces"]  # type: ignore[index]
        assert not box.exec("unshare -r true").ok


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"kind": "k9s"}, "env.kind=k9s"), ({"isolation": "jail"}, "env.isolation=jail")],
)
def test_unknown_choice_names_the_key(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        open_env(schema.Env(**settings))  # type: ignore[arg-type]


def test_describe_says_what_holds(env: LocalEnv) -> None:
    facts = env.describe()
    assert facts["isolation"] == "bwrap" and facts["network"] == "none"
    names = ["files", "pids", "sysctl", "privileges", "namespaces", "writable", "network"]
    names += ["seccomp"] if facts["seccomp"] == "deny-list" else []
    assert facts["proven"] == dict.fromkeys(names, True)
    json.dumps(facts)
