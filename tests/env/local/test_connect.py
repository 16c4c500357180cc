"""Connections from outside to a port inside."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from orchard_cli.env.local.local import LocalEnv
from orchard_cli.env.sandbox import Sandbox, Spec
from orchard_cli.errors import SandboxError

SERVE = """
import socket, sys
server = socket.create_server((sys.argv[1], 0), family=socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
print(server.getsockname()[1], flush=True)
open("port", "w").write(str(server.getsockname()[1]))
while True:
    peer, _ = server.accept()
    while data := peer.recv(65536): peer.sendall(data.upper())
    peer.close()
"""


@pytest.fixture(params=["bwrap", "process"])
def place(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    if request.param == "process":
        with LocalEnv(isolation="process") as env, env.open(Spec()) as opened:
            yield opened
    else:
        yield request.getfixturevalue("sandbox")


def serve(sandbox: Sandbox, host: str = "127.0.0.1") -> int:
    sandbox.write("serve.py", SERVE.encode())
    sandbox.exec(f"setsid python3 serve.py {host} >log 2>&1 & until [ -s port ]; do sleep 0.02; done")
    return int(sandbox.read("port"))


def test_server_inside_is_reached_from_outside(place: Sandbox) -> None:
    with place.connect(serve(place)) as peer:
        peer.sendall(b"hello")
        assert peer.recv(100) == b"HELLO"
        peer.shutdown(socket.SHUT_WR)
        assert peer.recv(100) == b""


def test_port_without_a_listener_is_refused(place: Sandbox) -> None:
    with pytest.raises(SandboxError) as caught:
        place.connect(9)
    assert (caught.value.fault.code, caught.value.fault.attributable) == ("connect_refused", "unknown")


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_number_that_is_no_port_is_the_client_s_fault(sandbox: Sandbox, port: int) -> None:
    with pytest.raises(SandboxError) as caught:
        sandbox.connect(port)
    assert caught.value.fault.code == "client.bad_argument"


def test_host_s_own_ports_are_not_reached(sandbox: Sandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, pytest.raises(SandboxError):
        sandbox.connect(listener.getsockname()[1])


def test_each_of_many_gets_its_own_connection(sandbox: Sandbox) -> None:
    port = serve(sandbox)

    def talk(number: int) -> bool:
        with sandbox.connect(port) as peer:
            peer.sendall(b"n%d" % number)
            return peer.recv(100) == b"N%d" % number

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(talk, range(12)))


def test_connection_ends_with_the_sandbox(env: LocalEnv) -> None:
    with env.open(Spec()) as opened:
        peer = opened.connect(serve(opened))
    with peer:
        peer.settimeout(10)
        with suppress(ConnectionResetError):
            assert peer.recv(1) == b""
