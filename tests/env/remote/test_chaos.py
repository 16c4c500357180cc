"""Connections that break anywhere: every command runs exactly once, and its result comes."""

import random
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

from orchard_cli.env.remote import RemoteEnv
from orchard_cli.env.sandbox import Spec

from ..service.conftest import Rest

COMMANDS, WORKERS = 150, 6


class Chaos:
    """A proxy that cuts connections after a random number of bytes, in either direction, and counts the cuts."""

    def __init__(self, url: str, seed: int):
        host, _, port = urlsplit(url).netloc.partition(":")
        self._server, self._random, self.cuts = (host, int(port)), random.Random(seed), 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.calm = False
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def _start(self, work: object, *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)  # type: ignore[arg-type]
        thread.start()
        self._threads.append(thread)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._start(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError), socket.create_connection(self._server) as server:
            other = threading.Thread(target=self._carry, args=(server, client), daemon=True)
            other.start()
            self._carry(client, server)
            other.join()

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                if not self.calm and self._random.random() < 0.15:
                    self.cuts += 1
                    target.sendall(data[: self._random.randrange(len(data) + 1)])
                    break
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(10)


@contextmanager
def chaos(rest: Rest, seed: int) -> Iterator[Chaos]:
    proxy = Chaos(rest.url, seed)
    try:
        yield proxy
    finally:
        proxy.close()


def test_no_command_runs_twice_and_none_is_lost(rest: Rest) -> None:
    with chaos(rest, seed=1) as proxy:
        proxy.calm = True
        with RemoteEnv(proxy.url, rest.key) as env, env.open(Spec()) as box:
            proxy.calm = False

            def one(number: int) -> bytes:
                return box.exec(f"echo {number} >>log; echo {number}").stdout

            with ThreadPoolExecutor(WORKERS) as pool:
                said = list(pool.map(one, range(COMMANDS)))
            cuts, proxy.calm = proxy.cuts, True
            log = box.read("log").decode().split()
        assert said == [f"{number}\n".encode() for number in range(COMMANDS)]
        assert sorted(map(int, log)) == list(range(COMMANDS))
        assert cuts > COMMANDS / 10


def test_a_stream_that_breaks_goes_on_where_it_was(rest: Rest) -> None:
    with chaos(rest, seed=2) as proxy:
        proxy.calm = True
        with RemoteEnv(proxy.url, rest.key) as env, env.open(Spec()) as box:
            proxy.calm = False
            data = b"".join(event.data for event in box.start("seq 1 20000").events())
            proxy.calm = True
        assert data == b"".join(b"%d\n" % number for number in range(1, 20_001))


def test_one_sandbox_for_each_that_was_asked_for(rest: Rest) -> None:
    with chaos(rest, seed=3) as proxy:
        with RemoteEnv(rest.url, rest.key, labels={"by": "chaos"}) as env:
            real, env.client = env.client, type(env.client)(proxy.url, rest.key)
            boxes = [env.open(Spec()) for _ in range(12)]
            found = rest("GET", "/v1/sandboxes", label="by=chaos").json["items"]
            assert {item["id"] for item in found} == {box.id for box in boxes}
            for box in boxes:
                box.close()
            env.client.close()
            env.client = real
        assert rest("GET", "/v1/sandboxes", label="by=chaos").json["items"] == []
        assert proxy.cuts > 0
