"""Exactly once, over the agent's own HTTP: whatever a network does to requests and answers, a key runs at most once.

Every command leaves a line of its own in a file, so that what was run is counted there and not believed.
"""

import json
import random
import socket
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from .conftest import TOKEN, Place

LATE = 40  # requests that a network may hold back


@dataclass
class Chaos:
    """A client of one agent on a network that loses, repeats and delays."""

    place: Place
    dice: random.Random
    held: list[tuple[str, bytes]] = field(default_factory=list)  # to be delivered some time, once more
    delivered: set[str] = field(default_factory=set)
    told: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))

    def request(self, key: str, wait_s: float) -> bytes:
        body = json.dumps({"argv": ["/bin/sh", "-c", "echo $0 >>log", key]}).encode()
        head = f"POST /v1/execs?wait_s={wait_s} HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n"
        head += f"Idempotency-Key: {key}\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        return head.encode() + body

    def send(self, data: bytes) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(60)
        sock.connect(self.place.address)
        with suppress(BrokenPipeError, ConnectionResetError):
            sock.sendall(data)
        return sock

    def hear(self, key: str, sock: socket.socket) -> dict[str, Any]:
        with sock:
            said = b"".join(iter(lambda: sock.recv(65536), b""))
        record: dict[str, Any] = json.loads(said.partition(b"\r\n\r\n")[2].partition(b"\n")[0])
        self.told[key].append(record)
        return record

    # -- what can happen to a request

    def answered(self, key: str) -> None:
        self.hear(key, self.send(self.request(key, 30)))

    def repeated(self, key: str) -> None:
        """Several of the same on the way at once; of some, the answer is lost."""
        socks = [self.send(self.request(key, 30)) for _ in range(self.dice.randint(2, 4))]
        for sock in socks[1:]:
            sock.close() if self.dice.random() < 0.3 else self.hear(key, sock)
        self.hear(key, socks[0])

    def answer_lost(self, key: str) -> None:
        self.send(self.request(key, 30)).close()

    def torn(self, key: str) -> None:
        """The connection breaks within the request: it must count as never sent."""
        data = self.request(key, 30)
        self.send(data[: self.dice.randrange(1, len(data))]).close()

    def answer_torn(self, key: str) -> None:
        with self.send(self.request(key, 30)) as sock:
            sock.recv(self.dice.randint(1, 40))

    def not_waited_for(self, key: str) -> None:
        self.hear(key, self.send(self.request(key, 0)))

    def call(self, key: str) -> None:
        ways: tuple[Callable[[str], None], ...] = (self.answered, self.repeated, self.answer_lost, self.torn)
        self.dice.choice((*ways, self.answer_torn, self.not_waited_for))(key)
        if self.dice.random() < 0.3:
            self.held.append((key, self.request(key, self.dice.choice((0, 30)))))
        if len(self.held) > LATE:
            late, data = self.held.pop(self.dice.randrange(LATE))
            self.hear(late, self.send(data))

    def settle(self, keys: list[str]) -> None:
        """Everybody asks again until there is an end; what was held back arrives after it."""
        for key in keys:
            self.answered(key)
        for key, data in self.held:
            self.hear(key, self.send(data))


def chaos(place: Place, count: int, seed: int) -> None:
    client = Chaos(place, random.Random(seed))
    keys = [f"{seed}-{number}" for number in range(count)]
    (place.workdir / "log").unlink(missing_ok=True)
    for key in keys:
        client.call(key)
    client.settle(keys)
    ran = Counter((place.workdir / "log").read_text().split())
    assert ran == Counter(keys)  # asked for until there was an answer: once each, and never twice
    for key in keys:
        one_record(client.told[key])
    kept = json.loads(place.channel.ask("GET", "/v1/execs").body)["execs"]
    for record in kept:
        ends = place.channel.ask("GET", f"/v1/execs/{record['id']}/events").body.splitlines()
        assert [json.loads(line)["type"] for line in ends].count("exit") == 1


def one_record(told: list[dict[str, Any]]) -> None:
    """All answers tell of one execution and, once it has ended, of one end; later, only that there was one."""
    forgotten = [record for record in told if "code" in record]
    assert {(record["code"], record["effect"]) for record in forgotten} <= {("infra.result_forgotten", "complete")}
    known = [record for record in told if "code" not in record]
    assert len({record["id"] for record in known}) <= 1
    ended = [record for record in known if record["state"] == "done"]
    assert all(record == ended[0] for record in ended)
    assert all(record["exit_code"] == 0 and record["reason"] == "exited" for record in ended)


def test_every_key_runs_once_whatever_the_network_does(place: Place) -> None:
    chaos(place, 500, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 6))
def test_ten_thousand_keys_run_once_each(place: Place, seed: int) -> None:
    chaos(place, 2500, seed)
