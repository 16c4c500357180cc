"""Contained sandboxes that outlive a driver that was killed: the next one on its folder has them, or nobody has."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from orchard_cli.env.contained import probe
from orchard_cli.env.contained.choose import any_tier, contained
from orchard_cli.env.contained.env import ContainedEnv
from orchard_cli.env.local import probe as local_probe
from orchard_cli.env.local.lasting import Lasting
from orchard_cli.env.local.local import LocalEnv
from orchard_cli.env.network.endpoint import ModelEndpoint
from orchard_cli.env.network.ways import MODEL_PORT
from orchard_cli.env.sandbox import Spec
from orchard_cli.errors import ConfigError

from ..conftest import alive, cgroups, settled
from ..service.test_crash import serve
from .test_alive import COUNT, Answers, goes_on, running, unskipped
from .test_contained import traces

TIERS = ("container", "gvisor")
DRIVER = """
import sys, time
from pathlib import Path
from orchard_cli.env.contained.choose import any_tier
from orchard_cli.env.local.lasting import Lasting
from orchard_cli.env.network.endpoint import ModelEndpoint
from orchard_cli.env.sandbox import Spec
tier, state, keep_s, then = sys.argv[1:]
env = any_tier(tier, lasting=Lasting(Path(state), float(keep_s)))
exec(then)
print(env.base, flush=True)
time.sleep(600)
"""
ONE = "box = env.open(Spec()); box.note('mine'); box.exec('setsid sleep 74.25 &')"


@pytest.fixture(scope="module", params=TIERS)
def tier(request: pytest.FixtureRequest) -> str:
    try:
        contained(request.param).close()
    except ConfigError as error:
        pytest.skip(str(error))
    return str(request.param)


def left_by(tier: str, state: Path, then: str, keep_s: float = 60.0) -> Path:
    """The folder of an environment whose driver has done `then` and was killed."""
    argv = [sys.executable, "-c", DRIVER, tier, str(state), str(keep_s), then]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        base = driver.stdout.readline().strip()
        driver.kill()
    assert base
    return Path(base)


def holder(base: Path) -> int:
    return int(base.name.split("-")[2])


def pids(name: str) -> Iterator[int]:
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if name.encode() in place.read_bytes() and int(place.parent.name) != os.getpid():
                yield int(place.parent.name)


def remains(base: Path) -> list[object]:
    """Of a whole environment, its folder excepted."""
    return [*traces(base.name), *cgroups(base.name), *([holder(base)] if alive(holder(base)) else [])]


def test_it_goes_on_and_the_next_driver_has_it(tier: str, tmp_path: Path) -> None:
    script = "sleep 2; echo x >>ran; cat kept ran"
    begun = f"box.write('kept', b'1'); box.start({script!r}, key='k', timeout_s=100); half = env.open(Spec())"
    base = left_by(tier, tmp_path, f"{ONE}; {begun}")
    with any_tier(tier, lasting=Lasting(tmp_path, 60.0)) as env:
        assert isinstance(env, ContainedEnv) and env.base == base and env.outlives
        (heir,) = env.left  # what had no note was only half made
        assert (heir.note, heir.dead) == ("mine", "")
        with heir.open(Spec(env={"WORD": "said"})) as box:
            (begun,) = [each for each in box.executions() if each.key == "k"]
            assert begun.wait(30).stdout == b"1x\n"
            assert box.exec("echo $WORD; cat ran").stdout == b"said\nx\n"
            assert "b/kept" in box.diff()
            with box.fork(processes=tier == "gvisor" and not os.geteuid()) as twin, env.open(Spec()) as other:
                assert twin.read("kept") == b"1"
                assert len({box.id, twin.id, other.id}) == 3
        name = box.id.partition("-")[2]
        assert settled(lambda: traces(name), []) == [] and not (base / name).exists()
    assert settled(lambda: remains(base), []) == []
    assert not base.exists() and not list(tmp_path.iterdir())


def test_nobody_comes(tier: str, tmp_path: Path) -> None:
    base = left_by(tier, tmp_path, ONE, keep_s=1.0)
    assert settled(lambda: traces(base.name), [], seconds=30) == []
    assert not alive(holder(base))
    contained(tier).close()  # sweeps the folder
    assert settled(lambda: remains(base), []) == [] and not base.exists()
    with any_tier(tier, lasting=Lasting(tmp_path, 1.0)) as env:
        assert env.left == ()


def test_closed_in_order_nothing_is_left(tier: str, tmp_path: Path) -> None:
    with any_tier(tier, lasting=Lasting(tmp_path, 60.0)) as env:
        box = env.open(Spec())
        box.exec("setsid sleep 74.25 &")
        env.open(Spec()).close()
        assert remains(env.base)
    box.close()
    assert settled(lambda: remains(env.base), []) == []
    assert not env.base.exists() and not list(tmp_path.iterdir())


@pytest.mark.parametrize("keep_s", [0.0, 60.0])
def test_what_a_living_driver_has_is_not_taken(tier: str, tmp_path: Path, keep_s: float) -> None:
    with any_tier(tier, lasting=Lasting(tmp_path, 60.0)) as env, env.open(Spec()) as box:
        with pytest.raises(ConfigError, match="another server that lives"):
            any_tier(tier, lasting=Lasting(tmp_path, keep_s))
        assert box.exec("echo here").stdout == b"here\n"


@pytest.mark.parametrize("other", ["tier", "version", "no time"])
def test_what_is_of_another_kind_is_ended(
    tier: str, tmp_path: Path, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = left_by(tier, tmp_path, ONE)
    assert alive(holder(base))
    if other == "version":
        monkeypatch.setattr("orchard_cli.env.contained.env.__version__", "0")
    tiers = tuple(reversed(TIERS)) if other == "tier" else TIERS
    next_tier = tiers[TIERS.index(tier)]
    try:
        with any_tier(next_tier, lasting=Lasting(tmp_path, 0.0 if other == "no time" else 60.0)) as env:
            assert env.left == () and env.base != base
    except ConfigError as error:
        pytest.skip(str(error))
    contained(tier).close()
    assert settled(lambda: remains(base), []) == []
    assert not base.exists() and not list(tmp_path.iterdir())


def test_what_died_meanwhile_is_told(tier: str, tmp_path: Path) -> None:
    base = left_by(tier, tmp_path, f"{ONE}; two = env.open(Spec()); two.note('two')")
    found = list(pids(f"{base.name}-2"))  # the first was that of the proof
    groups = {line.split(":")[2] for pid in found for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()}
    for pid in found:  # an engine's monitor, too, so that nobody tidies up
        os.kill(pid, signal.SIGKILL)
    assert settled(lambda: traces(f"{base.name}-2"), []) == []
    with any_tier(tier, lasting=Lasting(tmp_path, 60.0)) as env:
        one, two = env.left
        assert (one.note, two.note, two.dead) == ("mine", "two", "") and one.dead
        one.close()
        assert not (base / f"{base.name}-2").exists()
        with two.open(Spec()) as box:
            assert box.exec("echo on").stdout == b"on\n"
    assert settled(lambda: remains(base), []) == []
    named = [group.strip("/") for group in groups if "libpod" in group or base.name in group]
    assert [place for group in named for place in Path("/sys/fs/cgroup").glob(f"*/{group}")] == []


def test_model_can_be_reached_again(tier: str, tmp_path: Path) -> None:
    asked = f"import urllib.request as u; print(u.urlopen('http://127.0.0.1:{MODEL_PORT}/v1/models').read().decode())"
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        left_by(tier, tmp_path, f"box = env.open(Spec(model=ModelEndpoint({url!r}))); box.note('mine')")
        with (
            any_tier(tier, lasting=Lasting(tmp_path, 60.0)) as env,
            env.left[0].open(Spec(model=ModelEndpoint(url))) as box,
        ):
            assert box.exec(["python3", "-c", asked]).stdout == b"yes\n\n"
        server.shutdown()


def test_twins_outlive_their_driver_as_well(tmp_path: Path) -> None:
    with unskipped() as place:
        assert place.describe()["isolation"] == "gvisor"
    begun = f"box.start({COUNT!r}, timeout_s=600); time.sleep(1); twin = box.fork(processes=True); twin.note('twin')"
    base = left_by("gvisor", tmp_path, f"{ONE}; {begun}")
    with any_tier("gvisor", lasting=Lasting(tmp_path, 60.0)) as env:
        assert sorted((heir.note, heir.dead) for heir in env.left) == [("mine", ""), ("twin", "")]
        one, two = (heir.open(Spec()) for heir in env.left)
        with one, two:
            for box in (one, two):
                running(box)
                assert goes_on(box)
    assert settled(lambda: remains(base), []) == []


def test_a_server_that_is_killed_twice_serves_on(tier: str, tmp_path: Path) -> None:
    state, key, how = tmp_path / "state", {"Idempotency-Key": "once"}, ("--isolation", tier, "--outlive-s", "60")
    script = "echo x >>began; sleep 4; echo ended"
    with serve(state, *how) as (rest, _):
        id = rest.make(id="box", labels={"a": "b"})
        begun = rest("POST", f"/v1/sandboxes/{id}/execs", {"script": script}, key).json["id"]
        assert settled(lambda: rest.out(id, "cat began || true"), "x\n") == "x\n"
    with serve(state, *how) as (rest, _):
        assert rest("GET", "/v1/sandboxes").json["items"][0]["labels"] == {"a": "b"}
        assert rest("POST", f"/v1/sandboxes/{id}/execs", {"script": script}, key).json["id"] == begun
    with serve(state, *how) as (rest, server):
        told = rest("GET", f"/v1/sandboxes/{id}/execs/{begun}", wait=20).json
        assert told.get("state") == "done", told
        assert told["result"]["stdout"]["text"] == "ended\n"
        assert rest.out(id, "cat began") == "x\n"
        base = Path((state / "holder").read_text())
        server.terminate()
        assert server.wait(60) == 0
    assert settled(lambda: remains(base), []) == [] and not base.exists()


def test_long_way_to_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than the address of a socket may be long; engine and gVisor have limits of their own."""
    far = tmp_path / ("x" * 100)
    far.mkdir()
    monkeypatch.setenv("TMPDIR", str(far))
    monkeypatch.setattr(tempfile, "tempdir", None)
    left_by("bwrap", tmp_path / "state", "box = env.open(Spec()); box.note('mine'); box.write('a', b'x')")
    with any_tier("bwrap", lasting=Lasting(tmp_path / "state", 60.0)) as env:
        (heir,) = env.left
        with heir.open(Spec()) as box:
            assert box.read("a") == b"x"


@pytest.mark.parametrize("isolation", ["bwrap", *TIERS])
def test_a_successor_that_cannot_begin_ends_nothing(
    isolation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = left_by(isolation, tmp_path, ONE)

    def never(*_: object) -> None:
        raise ConfigError("not proven", hint="")

    for proofs in (probe, local_probe):
        monkeypatch.setattr(proofs, "prove", never)
    with pytest.raises(ConfigError, match="not proven"):
        any_tier(isolation, lasting=Lasting(tmp_path, 60.0))
    monkeypatch.undo()
    with any_tier(isolation, lasting=Lasting(tmp_path, 60.0)) as env:
        assert isinstance(env, ContainedEnv | LocalEnv) and env.base == base
        with env.left[0].open(Spec()) as box:
            assert box.exec("echo on").stdout == b"on\n"


def test_a_fork_of_what_was_left_is_made_from_the_same(tier: str, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "kept").write_text("k")
    then = f"box = env.open(Spec(tree=Path({str(tree)!r}))); box.note('mine'); box.write('own', b'o')"
    left_by(tier, tmp_path, then)
    with any_tier(tier, lasting=Lasting(tmp_path, 60.0)) as env:
        assert isinstance(env, ContainedEnv)
        with env.left[0].open(Spec()) as box, box.fork() as twin:
            assert twin.list() == box.list() == ("kept", "own")
            assert "kept" not in twin.diff()
