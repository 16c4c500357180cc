"""Forks with everything that runs, where gVisor is there: both go on, apart from each other, and under other names."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from orchard_cli.env.channel import Channel
from orchard_cli.env.contained.choose import any_tier, contained
from orchard_cli.env.contained.env import ContainedEnv
from orchard_cli.env.contained.held import Held
from orchard_cli.env.contained.making import Making
from orchard_cli.env.execution import Execution
from orchard_cli.env.local.sandbox import LocalSandbox
from orchard_cli.env.network.endpoint import ModelEndpoint
from orchard_cli.env.network.ways import MODEL_PORT
from orchard_cli.env.sandbox import Sandbox, Spec
from orchard_cli.errors import ConfigError, SandboxError

from ..conftest import cgroups, settled
from .test_contained import traces

COUNT = "i=0; while true; do i=$((i+1)); echo $i >/tmp/count.new; mv /tmp/count.new /tmp/count; sleep 0.05; done"
ECHO = """
import socket, threading, time
served = socket.create_server(("127.0.0.1", 7777))
def answer():
    peer, _ = served.accept()
    while data := peer.recv(100):
        peer.sendall(data)
threading.Thread(target=answer, daemon=True).start()
client, number = socket.create_connection(("127.0.0.1", 7777)), 0
while True:
    number += 1
    client.sendall(b"%d" % number)
    said = client.recv(100)
    with open("/tmp/count", "wb") as file:
        file.write(said)
    time.sleep(0.05)
"""


@contextmanager
def unskipped() -> Iterator[ContainedEnv]:
    """Where processes can be forked at all."""
    try:
        env = contained("gvisor")
    except ConfigError as error:
        pytest.skip(str(error))
    with env:
        if os.geteuid():
            with env.open(Spec()) as box, pytest.raises(SandboxError) as caught:
                box.fork(processes=True)
            assert caught.value.fault.code == "client.unsupported"
            pytest.skip("gVisor brings only root's sandboxes back")
        yield env


@pytest.fixture(scope="module")
def place() -> Iterator[ContainedEnv]:
    with unskipped() as env:
        yield env


def counted(box: Sandbox) -> int:
    return int(box.exec("cat /tmp/count").stdout or 0)


def running(box: Sandbox) -> None:
    until = time.monotonic() + 20
    while not box.exec("cat /tmp/count 2>/dev/null").stdout:
        assert time.monotonic() < until
        time.sleep(0.05)


def goes_on(box: Sandbox) -> bool:
    first, until = counted(box), time.monotonic() + 20
    while counted(box) <= first:
        if time.monotonic() > until:
            return False
    return True


def of_key(box: Sandbox, wanted: Execution) -> Execution:
    return next(each for each in box.executions() if each.key == wanted.key)


@pytest.mark.parametrize("script", [COUNT, f"exec python3 -c '{ECHO}'"], ids=["files", "connection"])
def test_what_runs_goes_on_in_both(place: ContainedEnv, script: str) -> None:
    with place.open(Spec()) as box:
        box.start(script, timeout_s=600)
        running(box)
        with box.fork(processes=True) as twin:
            assert goes_on(box) and goes_on(twin)
            twin.exec("echo other >mine; pkill sleep; kill -9 -1")
            assert goes_on(box)
            assert box.exec("ls").stdout == b""


def test_commands_are_those_of_the_origin_and_end_in_each(place: ContainedEnv) -> None:
    with place.open(Spec()) as box, ThreadPoolExecutor() as pool:
        fed = box.start("cat; echo $SECRET", stdin=None, env={"SECRET": "s"})
        fed.write(b"both ")
        waited = pool.submit(box.exec, "sleep 2; echo long")
        followed = pool.submit(lambda: [event.data for event in box.start("sleep 2; echo heard").events()])
        time.sleep(0.5)
        with box.fork(processes=True) as twin:
            copy = of_key(twin, fed)
            copy.write(b"twin\n")
            copy.close_stdin()
            assert copy.wait(30).stdout == b"both twin\ns\n"
            fed.write(b"origin\n")
            fed.close_stdin()
            assert fed.wait(30).stdout == b"both origin\ns\n"
        assert waited.result(30).stdout == b"long\n"  # whoever waited has noticed nothing
        assert b"".join(followed.result(30)) == b"heard\n"


def test_clients_that_never_rest_notice_nothing(place: ContainedEnv) -> None:
    over = threading.Event()

    def busy(box: Sandbox, name: str) -> int:
        count = 0
        while not over.is_set():
            count += 1
            assert box.exec(f"echo {name} {count}").stdout == f"{name} {count}\n".encode()
            followed = box.start(f"echo {name}; sleep 0.1; echo {count}")
            assert b"".join(event.data for event in followed.events()) == f"{name}\n{count}\n".encode()
        return count

    with place.open(Spec()) as box, ThreadPoolExecutor() as pool:
        fed = box.start("cat", stdin=None, timeout_s=600)
        fed.write(b"x")
        clients = [pool.submit(busy, box, name) for name in "abc"]
        try:
            for _ in range(5):
                box.fork(processes=True).close()
        finally:
            over.set()
        assert all(client.result(60) for client in clients)


def test_twin_has_an_identity_of_its_own_and_the_right_time(place: ContainedEnv) -> None:
    with place.open(Spec()) as box, box.fork(processes=True) as twin:
        assert isinstance(box, LocalSandbox) and isinstance(twin, LocalSandbox)
        assert box.id != twin.id
        origin, other = (place.keeper.find(each.id.partition("-")[2]) for each in (box, twin))
        assert origin.token != other.token
        for token, name in ((origin.token, other.making.name), (other.token, origin.making.name)):
            wrong = Channel(other.held.dial, name, token, lambda effect: SandboxError("lost", code="x"))
            with pytest.raises(SandboxError) as caught:
                wrong.ask("GET", "/v1/health")
            assert caught.value.fault.code == "infra.identity_mismatch"
            wrong.close()
        for each in (box, twin):
            assert abs(int(each.exec("date +%s").stdout) - time.time()) < 3


def test_forks_of_forks_of_both_kinds(place: ContainedEnv) -> None:
    with place.open(Spec()) as box:
        box.write("first", b"1")
        box.start(COUNT, timeout_s=600)
        running(box)
        with box.fork(processes=True) as twin:
            twin.write("second", b"2")
            with twin.fork(processes=True) as third, twin.fork() as files:
                assert third.list() == files.list() == ("first", "second")
                assert goes_on(third) and goes_on(twin)
                assert files.exec("ps ax | grep -c '[s]leep'").stdout == b"0\n"
                assert "second" in third.diff()


class Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"yes\n")

    def log_message(self, *_: object) -> None: ...


def test_model_can_be_reached_from_both(place: ContainedEnv) -> None:
    asked = f"import urllib.request as u; print(u.urlopen('http://127.0.0.1:{MODEL_PORT}/v1/models').read().decode())"
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        model = ModelEndpoint(f"http://127.0.0.1:{server.server_address[1]}/v1")
        with place.open(Spec(model=model)) as box:
            assert box.exec(["python3", "-c", asked]).stdout == b"yes\n\n"
            with box.fork(processes=True) as twin:
                for each in (twin, box):
                    assert each.exec(["python3", "-c", asked]).stdout == b"yes\n\n"
        server.shutdown()


def test_transfer_under_way_ends_first(place: ContainedEnv) -> None:
    with place.open(Spec()) as box, ThreadPoolExecutor() as pool:
        box.exec("head -c 50000000 /dev/zero >big")

        def slowly() -> int:
            size = 0
            for number, piece in enumerate(box.fetch("big")):
                size += len(piece)
                time.sleep(0.5 if number < 3 else 0)
            return size

        fetched = pool.submit(slowly)
        time.sleep(0.5)
        box.fork(processes=True).close()
        assert fetched.result(60) == 50_000_000


def test_many_at_once_from_one_origin(place: ContainedEnv) -> None:
    with place.open(Spec()) as box, ThreadPoolExecutor() as pool:
        box.start(COUNT, timeout_s=600)
        running(box)
        twins = list(pool.map(lambda _: box.fork(processes=True), range(3)))
        assert all(goes_on(twin) for twin in (box, *twins))
        for twin in twins:
            twin.close()


def test_nothing_is_left_of_a_twin(place: ContainedEnv) -> None:
    box = place.open(Spec())
    twin = box.fork(processes=True)
    folders = {place.base / each.id.partition("-")[2] for each in (box, twin)}
    assert all(folder.is_dir() and not (folder / "frozen").exists() for folder in folders)
    box.close()
    assert twin.exec("echo hi").stdout == b"hi\n"
    twin.close()
    assert not any(folder.exists() for folder in folders)
    assert [line for folder in folders for line in traces(folder.name)] == []
    with pytest.raises(SandboxError, match="closed"):
        box.fork(processes=True)


def test_failure_to_freeze_leaves_the_origin_as_it_was(place: ContainedEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise SandboxError("no space left", code="infra.freeze_failed")

    with place.open(Spec()) as box:
        box.start(COUNT, timeout_s=600)
        running(box)
        monkeypatch.setattr(place._runtime, "freeze", full)
        with pytest.raises(SandboxError, match="no space left"):
            box.fork(processes=True)
        assert goes_on(box)


def test_origin_that_dies_meanwhile_is_told_as_lost(place: ContainedEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = place._runtime
    assert runtime is not None
    freeze = runtime.freeze

    def spoilt(making: object, into: Path) -> None:
        freeze(making, into)  # type: ignore[arg-type]
        for image in into.glob("*.img"):
            image.write_bytes(b"no image")

    with place.open(Spec()) as box:
        monkeypatch.setattr(runtime, "freeze", spoilt)
        with pytest.raises(SandboxError):
            box.fork(processes=True)
        monkeypatch.undo()
        with pytest.raises(SandboxError) as caught:
            box.exec("echo hi")
        assert caught.value.fault.code == "infra.sandbox_lost"


@pytest.mark.parametrize("isolation", ["process", "bwrap", "container"])
def test_other_tiers_say_that_they_cannot(isolation: str) -> None:
    try:
        env = any_tier(isolation)
    except ConfigError as error:
        pytest.skip(str(error))
    with env, env.open(Spec()) as box:
        with pytest.raises(SandboxError) as caught:
            box.fork(processes=True)
        assert caught.value.fault.code == "client.unsupported"
        assert box.exec("echo hi").stdout == b"hi\n"


def test_an_origin_that_is_closed_meanwhile_leaves_nothing(
    place: ContainedEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime, begun = place._runtime, threading.Event()
    assert runtime is not None
    start = runtime.start

    def late(making: Making, frozen: Path | None = None) -> Held:
        if frozen:
            begun.set()
            time.sleep(1.0)
        return start(making, frozen)

    box = place.open(Spec())
    folder = place.base / box.id.partition("-")[2]
    monkeypatch.setattr(runtime, "start", late)
    with ThreadPoolExecutor() as pool:
        forked = pool.submit(box.fork, processes=True)
        begun.wait(60)
        box.close()
        forked.result(60).close()
    assert settled(lambda: traces(folder.name), []) == [] and not folder.exists()
    assert not [group for group in cgroups(place.base.name) if group.name == folder.name]


DRIVER = """
import sys, time
from orchard_cli.env.contained import alive
from orchard_cli.env.contained.choose import contained
from orchard_cli.env.sandbox import Spec
ask = alive._ask
def until_killed(dial, kept, what, **query):
    if what == sys.argv[1]:
        print(env.base.name, flush=True)
        time.sleep(600)
    ask(dial, kept, what, **query)
alive._ask = until_killed
env = contained("gvisor")
box = env.open(Spec())
box.exec("sleep 73.25 &")
twin = box.fork(processes=True)
print(env.base.name, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("at", ["quiet", "identity", "never"])
def test_when_the_driver_is_killed_both_end(place: ContainedEnv, at: str) -> None:
    with subprocess.Popen([sys.executable, "-c", DRIVER, at], stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        name = driver.stdout.readline().strip()
        assert traces(name)
        driver.kill()
    assert settled(lambda: traces(name), [], seconds=30) == []
    contained("gvisor").close()  # sweeps the folder
    assert not (place.base.parent / name).exists()
