"""Sandboxes that outlive a server that was killed are served by the next one on its folder, and nothing else is."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread

import pytest

from orchard_cli.env.remote.env import RemoteEnv
from orchard_cli.env.sandbox import Spec

from .conftest import ROOT, Rest
from .test_crash import gone, running, serve


def kill(server: "subprocess.Popen[str]") -> None:
    server.send_signal(signal.SIGKILL)
    server.wait()


def until(look: Callable[[], bool], seconds: float = 15.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if look():
            return True
        time.sleep(0.05)
    return False


def base(state: Path) -> Path:
    return Path((state / "spawner").read_text())


def test_what_outlives_a_killed_server_is_served_by_the_next(tmp_path: Path) -> None:
    state, key, mark = tmp_path / "state", {"Idempotency-Key": "once"}, f"96{os.getpid()}"
    script = f"echo one; echo x >>began; read line; echo $line; sleep {mark}"
    with serve(state, "--outlive-s", "60") as (rest, server):
        id = rest.make(id="box", labels={"a": "b"})
        rest.out(id, "echo kept > kept")
        talk = rest("POST", f"/v1/sandboxes/{id}/execs", {"script": script, "open_stdin": True}, key).json["id"]
        later = rest("POST", f"/v1/sandboxes/{id}/execs", {"script": "sleep 1.5; echo meanwhile"}).json["id"]
        assert until(lambda: "one" in text(events(rest, id, talk)))
        kill(server)
    time.sleep(1.6)  # the second command ends while nobody serves
    with serve(state, "--outlive-s", "60") as (rest, server):
        assert rest("GET", "/v1/sandboxes").json["items"][0]["labels"] == {"a": "b"}
        assert rest.out(id, "cat kept began") == "kept\nx\n"
        ended = rest("GET", f"/v1/sandboxes/{id}/execs/{later}", wait=5).json
        assert (ended["state"], ended["result"]["stdout"]["text"]) == ("done", "meanwhile\n")
        again = rest("POST", f"/v1/sandboxes/{id}/execs", {"script": script, "open_stdin": True}, key)
        assert again.json["id"] == talk
        assert rest("POST", f"/v1/sandboxes/{id}/execs/{talk}/stdin", b"two\n").status == 200
        assert until(lambda: "two" in text(events(rest, id, talk, after=2)))
        assert [frame["seq"] for frame in events(rest, id, talk, after=2)][:1] == [3]
        assert rest("POST", f"/v1/sandboxes/{id}/execs/{talk}/cancel").status == 200
        done = rest("GET", f"/v1/sandboxes/{id}/execs/{talk}", wait=10).json
        assert done["result"]["reason"] == "cancelled"
        assert rest.out(id, "cat began") == "x\n"
        assert rest("DELETE", f"/v1/sandboxes/{id}").status == 204
        left = base(state)
        server.terminate()
        assert server.wait(60) == 0
    assert not left.exists() and not (state / "spawner").exists()


def events(rest: Rest, id: str, exec: str, after: int = 0) -> list[dict[str, object]]:
    """Those that are there now."""
    from http.client import HTTPConnection
    from urllib.parse import urlsplit

    connection = HTTPConnection(urlsplit(rest.url).netloc, timeout=0.5)
    path = f"/v1/sandboxes/{id}/execs/{exec}/events?after={after}"
    connection.request("GET", path, headers={"Authorization": f"Bearer {ROOT}"})
    found = []
    try:
        for line in connection.getresponse():
            found.append(json.loads(line))
    except TimeoutError:
        pass
    finally:
        connection.close()
    return found


def text(frames: list[dict[str, object]]) -> str:
    return "".join(str(frame.get("text", "")) for frame in frames)


def test_a_client_does_not_notice_that_its_server_was_killed(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with serve(state, "--outlive-s", "60") as (rest, server):
        port = rest.url.rpartition(":")[2]
        env = RemoteEnv(rest.url, ROOT)
        box, said = env.open(Spec()), list[bytes]()
        caller = Thread(target=lambda: said.append(box.exec("echo x >>ran; sleep 2; cat ran").stdout))
        caller.start()
        assert until(lambda: bool(rest("GET", f"/v1/sandboxes/{box.id}/execs").json))
        kill(server)
    with serve(state, "--outlive-s", "1", port=port):
        caller.join(30)
        assert said == [b"x\n"]
        env.close()


def test_what_died_meanwhile_is_told_as_lost_and_leaves_nothing(tmp_path: Path) -> None:
    state, mark = tmp_path / "state", f"95{os.getpid()}"
    with serve(state, "--outlive-s", "60") as (rest, server):
        for id in ("dead", "alive"):
            rest.make(id=id)
        begun = rest("POST", "/v1/sandboxes/dead/execs", {"script": f"exec sleep {mark}"}).json["id"]
        assert until(lambda: bool(running(f"sleep\0{mark}")))
        kill(server)
    for pid in running(f"sleep\0{mark}"):
        init = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("PPid"))
        os.kill(int(init.split()[1]), signal.SIGKILL)  # its agent, with which it ends
    assert gone(f"sleep\0{mark}")
    with serve(state, "--outlive-s", "60") as (rest, server):
        assert [item["id"] for item in rest("GET", "/v1/sandboxes").json["items"]] == ["alive"]
        for path in ("", f"/execs/{begun}"):
            told = rest("GET", f"/v1/sandboxes/dead{path}")
            assert (told.status, told.code, told.json["attributable"]) == (410, "infra.sandbox_lost", "infra")
            assert "lost" in told.json["detail"]
        assert rest.out("alive", "echo yes") == "yes\n"
        left = base(state)
        server.terminate()
        assert server.wait(60) == 0
    assert not left.exists()


def test_nobody_comes(tmp_path: Path) -> None:
    state, mark = tmp_path / "state", f"94{os.getpid()}"
    with serve(state, "--outlive-s", "1") as (rest, server):
        rest("POST", f"/v1/sandboxes/{rest.make()}/execs", {"script": f"exec sleep {mark}"})
        assert until(lambda: bool(running(f"sleep\0{mark}")))
        kill(server)
    left = base(state)
    assert gone(f"sleep\0{mark}") and until(lambda: not left.exists())
    with serve(state, "--outlive-s", "1") as (rest, _):
        assert rest("GET", "/v1/sandboxes").json["items"] == []


def test_the_sandboxes_of_a_server_that_lives_are_not_taken(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with serve(state, "--outlive-s", "0.5") as (rest, _):
        id = rest.make()
        left = base(state)
        with pytest.raises(AssertionError, match="error:"), serve(state, "--outlive-s", "0.5"):
            pass
        assert rest.out(id, "echo here") == "here\n"
    assert until(lambda: not left.exists())


CONNECT = "CONNECT no.test:443 HTTP/1.1\\r\\nHost: no.test\\r\\n\\r\\n"
ASK = f"exec 3<>/dev/tcp/127.0.0.1/61080; printf '{CONNECT}' >&3; head -1 <&3"


def test_the_rules_of_the_network_outlive_it_too(tmp_path: Path) -> None:
    """As they were last, and never wider: what was forbidden while it ran stays so."""
    state, bound = tmp_path / "state", ("--network", "allowlist", "--allow", "no.test", "--allow", "two.test")
    with serve(state, "--outlive-s", "60", *bound) as (rest, server):
        id = rest.make(network="allowlist", allow=["no.test", "two.test"])
        before = rest.out(id, ASK)
        assert before.startswith("HTTP/1.1 50")  # allowed, and there is no such name
        narrower = {"network": "allowlist", "allow": ["two.test"]}
        assert rest("PUT", f"/v1/sandboxes/{id}/network", narrower).status == 200
        kill(server)
    with serve(state, "--outlive-s", "1", *bound) as (rest, server):
        assert rest("GET", f"/v1/sandboxes/{id}/network").json["allow"] == ["two.test"]
        assert rest.out(id, ASK).startswith("HTTP/1.1 403")
        server.terminate()
        server.wait(60)


def test_killed_while_many_are_made_only_the_whole_ones_are_served(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with serve(state, "--outlive-s", "60") as (rest, server), ThreadPoolExecutor(8) as pool:
        makes = [pool.submit(rest, "POST", "/v1/sandboxes", {"id": f"s{n}"}) for n in range(16)]
        makes[3].result()
        assert until(lambda: rest("GET", "/v1/sandboxes/s0").json["state"] == "ready")
        kill(server)
        for made in makes:
            made.exception()
    with serve(state, "--outlive-s", "1") as (rest, server):
        found = [item["id"] for item in rest("GET", "/v1/sandboxes").json["items"]]
        assert "s0" in found
        assert [rest.out(id, "echo on") for id in found] == ["on\n"] * len(found)
        doors = [path.name for path in base(state).glob("*.sock") if path.name != "spawner.sock"]
        assert len(doors) == len(found)  # nothing lives that nobody knows
        for id in found:
            assert rest("DELETE", f"/v1/sandboxes/{id}").status == 204
        assert not [path for path in base(state).glob("*.sock") if path.name != "spawner.sock"]
        server.terminate()
        assert server.wait(60) == 0
