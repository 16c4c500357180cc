"""What one sandbox may use up, rules that change while it runs, and what is written down."""

import json
import socket
import ssl
import threading
from pathlib import Path

import pytest

from orchard_cli.env.network.log import REFUSALS_LOGGED, Decision, DecisionLog
from orchard_cli.env.network.meter import CapReached, Caps, Meter
from orchard_cli.env.network.network import Gate, Network
from orchard_cli.env.network.rules import policy
from orchard_cli.errors import RunError

from ..conftest import settled
from .conftest import FAR, Names, Open, Site, connect, dial, exactly, get, head_of, heard, status, talk


class Tunnel:
    """A tunnel that stands: `inside` is the sandbox's end, `outside` the server's."""

    def __init__(self, gate: Gate, server: socket.socket, target: str):
        self.inside = dial(gate)
        self.inside.sendall(connect(target))
        assert status(head_of(self.inside)) == 200
        self.outside, _ = server.accept()
        self.outside.settimeout(10)
        self.inside.sendall(b"ping")
        assert self.outside.recv(4) == b"ping"

    def close(self) -> None:
        self.inside.close()
        self.outside.close()


def test_bytes_up_are_capped_over_the_life_of_a_sandbox(opens: Open, site: Site, network: Network) -> None:
    gate = opens(f"{FAR}:{site.port}", up_bytes=2000)
    url = f"http://{FAR}:{site.port}/"
    assert status(talk(gate, get(url))) == 200
    assert status(talk(gate, get(url, "Content-Length: 5000", method="POST") + b"x" * 5000)) == 429
    assert len(site.seen) == 1 and network.log.last()[-1].verdict == "capped"
    assert status(talk(gate, get(url))) in (0, 429)


def test_bytes_down_are_capped(opens: Open, network: Network) -> None:
    with socket.create_server((FAR, 0)) as server:
        target = f"{FAR}:{server.getsockname()[1]}"
        tunnel = Tunnel(opens(target, down_bytes=100_000), server, target)
        with pytest.raises(OSError):
            for _ in range(1000):
                tunnel.outside.sendall(b"x" * 65536)
        assert len(heard(tunnel.inside)) <= 100_000
        tunnel.close()
    assert network.log.last()[-1].verdict == "capped"


def test_a_cap_of_nothing_is_no_cap() -> None:
    meter = Meter(Caps(up_bytes=0, down_bytes=1))
    meter.take(up=1 << 40)
    with pytest.raises(CapReached):
        meter.take(down=2)


def test_connections_at_once_are_capped(opens: Open) -> None:
    with socket.create_server((FAR, 0)) as server:
        target = f"{FAR}:{server.getsockname()[1]}"
        gate = opens(target, connections=2)
        first, second = Tunnel(gate, server, target), Tunnel(gate, server, target)
        with dial(gate) as wire:
            assert heard(wire) in (b"", b"<reset>")
        first.close()
        assert settled(lambda: gate.connections, 1) == 1
        third = Tunnel(gate, server, target)
        second.close()
        third.close()


def test_a_tunnel_in_which_nothing_moves_is_ended(opens: Open, network: Network) -> None:
    with socket.create_server((FAR, 0)) as server:
        target = f"{FAR}:{server.getsockname()[1]}"
        tunnel = Tunnel(opens(target, idle_s=0.3), server, target)
        assert heard(tunnel.inside) in (b"", b"<reset>") and heard(tunnel.outside) in (b"", b"<reset>")
        tunnel.close()
    assert network.log.last()[-1].verdict == "failed"


def test_a_name_that_takes_forever_is_given_up(network: Network, opens: Open, names: Names) -> None:
    async def never(host: str, port: int) -> list[object]:
        import asyncio

        await asyncio.sleep(60)
        return []

    gate = opens("slow.test", connect_s=0.2)
    gate.way._resolve = never  # type: ignore[union-attr, assignment]
    assert status(talk(gate, connect("slow.test:443"))) == 504


def test_both_directions_at_full_speed_and_byte_for_byte(opens: Open, network: Network) -> None:
    data = bytes(range(256)) * 8192
    with socket.create_server((FAR, 0)) as server:
        target = f"{FAR}:{server.getsockname()[1]}"
        tunnel = Tunnel(opens(target), server, target)
        back: list[bytes] = []
        reader = threading.Thread(target=lambda: back.append(exactly(tunnel.outside, len(data))))
        reader.start()
        tunnel.inside.sendall(data)
        reader.join()
        assert back == [data]
        tunnel.inside.shutdown(socket.SHUT_WR)
        assert tunnel.outside.recv(1) == b""  # an end in one direction leaves the other open
        threading.Thread(target=lambda: (tunnel.outside.sendall(data), tunnel.outside.close())).start()
        assert heard(tunnel.inside) == data
        tunnel.close()
    decision = settled(lambda: network.log.last()[-1:] and network.log.last()[-1].verdict, "allowed")
    assert decision == "allowed" and network.log.last()[-1].bytes_up >= len(data)


# -- rules that change


def test_new_rules_hold_at_once_and_end_what_they_forbid(opens: Open, network: Network, site: Site) -> None:
    with socket.create_server((FAR, 0)) as server:
        kept, lost = f"{FAR}:{server.getsockname()[1]}", f"{FAR}:{site.port}"
        gate = opens(kept, kind="open")
        assert status(talk(gate, get(f"http://{lost}/"))) == 403
        assert gate.update(policy("allowlist", (kept, lost))) == 0
        assert status(talk(gate, get(f"http://{lost}/"))) == 200
        tunnel = Tunnel(gate, server, kept)
        assert gate.update(policy("allowlist", (kept,))) == 0  # what is still allowed goes on
        tunnel.inside.sendall(b"more")
        assert tunnel.outside.recv(4) == b"more"
        assert gate.update(policy("none")) == 1
        assert heard(tunnel.inside) in (b"", b"<reset>") and heard(tunnel.outside) in (b"", b"<reset>")
        tunnel.close()
        assert status(talk(gate, get(f"http://{lost}/"))) == 403
    assert [item.verdict for item in network.log.last()] == ["refused", "allowed", "revoked", "refused"]


def test_a_tunnel_that_was_not_proven_ends_when_proof_is_asked_for(opens: Open, names: Names) -> None:
    names.set("site.test", FAR)
    with socket.create_server((FAR, 0)) as server:
        port = server.getsockname()[1]
        gate = opens(f"{FAR}:{port}", kind="open")
        tunnel = Tunnel(gate, server, f"site.test:{port}")  # no TLS in it
        assert gate.update(policy("allowlist", (f"site.test:{port}", f"{FAR}:{port}"))) == 1
        assert heard(tunnel.outside) in (b"", b"<reset>")
        tunnel.close()


def test_a_private_address_that_is_no_longer_named_is_left(opens: Open, names: Names) -> None:
    names.set("site.test", FAR)
    with socket.create_server((FAR, 0)) as server:
        port = server.getsockname()[1]
        gate = opens(f"{FAR}:{port}", kind="open")
        tunnel = Tunnel(gate, server, f"site.test:{port}")
        assert gate.update(policy("open")) == 1
        tunnel.close()


def test_closing_a_gate_ends_its_connections_and_its_socket(opens: Open) -> None:
    with socket.create_server((FAR, 0)) as server:
        target = f"{FAR}:{server.getsockname()[1]}"
        gate = opens(target)
        tunnel = Tunnel(gate, server, target)
        gate.close()
        gate.close()
        assert heard(tunnel.inside) in (b"", b"<reset>")
        tunnel.close()
        with pytest.raises(ConnectionRefusedError):
            dial(gate)


def test_two_sandboxes_have_rules_of_their_own(opens: Open, site: Site, network: Network) -> None:
    url = f"http://{FAR}:{site.port}/"
    one, two = opens(f"{FAR}:{site.port}", sandbox="one"), opens("x.test", sandbox="two")
    assert (status(talk(one, get(url))), status(talk(two, get(url)))) == (200, 403)
    assert [item.verdict for item in network.log.last("two")] == ["refused"]


# -- the log


def test_every_decision_is_a_line(tmp_path: Path, names: Names, tls_site: Site, trust: ssl.SSLContext) -> None:
    names.set("site.test", FAR)
    port = tls_site.port
    with Network(DecisionLog(tmp_path / "egress.jsonl"), resolve=names) as network:
        rules = policy("allowlist", (f"site.test:{port}", f"{FAR}:{port}"))
        gate = network.egress(socket.create_server(("127.0.0.1", 0)), "box-7", rules)
        with dial(gate) as wire:
            wire.sendall(connect(f"site.test:{port}"))
            head_of(wire)
            with trust.wrap_socket(wire, server_hostname="site.test") as safe:
                safe.sendall(b"GET /secret-path HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\n\r\n")
                while safe.recv(65536):
                    pass
        talk(gate, connect("evil.test:443"))
        settled(lambda: len(network.log.last()), 2)
    text = (tmp_path / "egress.jsonl").read_text()
    lines = sorted((json.loads(line) for line in text.splitlines()), key=lambda line: line["verdict"])
    assert [(line["sandbox"], line["verdict"], line["host"]) for line in lines] == [
        ("box-7", "allowed", "site.test"),
        ("box-7", "refused", "evil.test"),
    ]
    assert lines[0]["address"] == FAR and lines[0]["rule"] == f"site.test:{port}" and "secret-path" not in text
    assert lines[0]["bytes_up"] > 300 and lines[0]["bytes_down"] > 500 and lines[0]["time"] > 1e9


def decision(sandbox: str = "a", verdict: str = "allowed", host: str = "x" * 100) -> Decision:
    return Decision(time=0.0, sandbox=sandbox, kind="connect", verdict=verdict, host=host)  # type: ignore[arg-type]


def test_the_log_does_not_grow_without_end(tmp_path: Path) -> None:
    log = DecisionLog(tmp_path / "log", max_bytes=20_000, kept=10)
    for number in range(500):
        log.add(decision(host=str(number)))
    log.close()
    sizes = [path.stat().st_size for path in tmp_path.iterdir()]
    assert len(sizes) == 2 and sum(sizes) <= 20_000
    assert json.loads((tmp_path / "log").read_text().splitlines()[-1])["host"] == "499"
    assert [item.host for item in log.last()] == [str(number) for number in range(490, 500)]


def test_noise_of_one_sandbox_does_not_push_out_what_was_let_through() -> None:
    log = DecisionLog(kept=10 * REFUSALS_LOGGED)
    log.add(decision(host="the one"))
    for _ in range(REFUSALS_LOGGED + 50):
        log.add(decision(verdict="refused"))
    log.add(decision("b", "refused"))
    assert len(log.last("a")) == REFUSALS_LOGGED + 1 and log.refusals("a") == REFUSALS_LOGGED + 50
    assert log.last("a")[0].host == "the one" and len(log.last("b")) == 1
    log.forget("a")
    assert log.refusals("a") == 0


def test_a_log_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no/log"):
        DecisionLog(tmp_path / "no" / "log")


def test_long_words_of_strangers_are_cut(opens: Open, network: Network) -> None:
    talk(opens(), connect("a" * 5000 + ":443"))
    (item,) = network.log.last()
    assert len(item.host) <= 301 and len(item.reason) <= 301
