"""The network that breaks and repeats, and the count of what ran behind it."""

import socket
from pathlib import Path

from orchard_cli.env.bench.chaos import chaos
from orchard_cli.env.bench.more import held
from orchard_cli.env.bench.relay import KINDS, Relay


def test_nothing_runs_twice_whatever_the_network_does() -> None:
    agent, rest = chaos(240, lambda text: None)
    for counted in (agent, rest):
        assert (counted.calls, counted.twice, counted.missing, counted.stopped) == (120, 0, 0, False)
        assert counted.answered == counted.ran == 120
        assert sum(counted.done.get(kind, 0) for kind in KINDS) > 5


def test_a_repeated_request_arrives_twice(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        server.listen()
        server.settimeout(10)
        relay = Relay(str(tmp_path / "s"), seed=0, kinds=("request repeated",), share=1.0)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(relay.address))
            client.sendall(b"once")
            arrived = []
            for _ in range(2):
                got, _ = server.accept()
                with got:
                    got.settimeout(10)
                    arrived.append(got.recv(64))
        relay.close()
    assert arrived == [b"once", b"once"]


def test_a_command_that_ran_twice_or_never_fails_the_bench() -> None:
    good = {"twice": 0, "missing": 0}
    assert held({"calls": [good]})
    assert not held({"calls": [good, {"twice": 1, "missing": 0}]})
    assert not held({"calls": [{"twice": 0, "missing": 1}]})
    assert not held({"faults": [{"wrong": 1}]})
    assert not held({"growth": {"grown": ["mounts"], "failed": 0}})
