"""What a channel makes of an agent's bytes, however they are cut."""

import errno
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from orchard_cli.env.channel import Channel, Refusal
from orchard_cli.errors import Effect, SandboxError

SWITCH = b"HTTP/1.1 101 Switching\r\nUpgrade: tcp\r\n\r\n"
SAID = {"message": "nothing listens", "code": "connect_refused", "attributable": "unknown", "effect": "none"}


def lost(effect: Effect) -> SandboxError:
    return SandboxError("the agent is gone", code="infra.agent_lost", effect=effect)


def agent(*pieces: bytes) -> Callable[[], socket.socket]:
    """A connection to one that answers in these pieces."""

    def dial() -> socket.socket:
        near, far = socket.socketpair()

        def answer() -> None:
            with far, suppress(OSError):
                far.recv(1 << 16)
                for piece in pieces:
                    far.sendall(piece)
                    time.sleep(0.005)

        threading.Thread(target=answer, daemon=True).start()
        return near

    return dial


@pytest.mark.parametrize("cut", range(1, len(SWITCH) + 6))
def test_what_follows_a_switch_is_for_whoever_has_the_connection_next(cut: int) -> None:
    data = SWITCH + b"hello"
    channel = Channel(agent(data[:cut], data[cut:]), "box", "token", lost)
    with channel.upgrade("/v1/ports/1", query={}, wait_s=5) as sock:
        said = b""
        while piece := sock.recv(100):
            said += piece
    assert said == b"hello"


@pytest.mark.parametrize("cut", [1, 30, 60, 100])
def test_a_switch_that_is_refused_says_why(cut: int) -> None:
    body = json.dumps(SAID).encode()
    data = b"HTTP/1.1 409 Conflict\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    with pytest.raises(SandboxError, match="nothing listens") as caught:
        Channel(agent(data[:cut], data[cut:]), "box", "token", lost).upgrade("/v1/ports/1", query={}, wait_s=5)
    assert caught.value.fault.code == "connect_refused"


@pytest.mark.parametrize("said", [b"", SWITCH[:9]])
def test_a_switch_that_breaks_off_is_a_lost_agent(said: bytes) -> None:
    with pytest.raises(SandboxError) as caught:
        Channel(agent(said), "box", "token", lost).upgrade("/v1/ports/1", query={}, wait_s=5)
    assert caught.value.fault.code == "infra.agent_lost"


def test_a_download_that_breaks_off_with_its_agent_says_so() -> None:
    half = agent(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
    pieces = Channel(half, "box", "token", lost).download("/v1/files", query={"path": "f"})
    with pytest.raises(SandboxError) as caught:
        b"".join(pieces)
    assert caught.value.fault.code == "infra.agent_lost"


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (Refusal("no such file", code="client.no_such_file", attributable="client"), "client.no_such_file"),
        (ConnectionResetError("theirs"), "client.broken_off"),
        (TimeoutError("theirs"), "client.broken_off"),
    ],
)
def test_what_gives_the_pieces_may_fail_for_itself(failure: Exception, code: str) -> None:
    dial, dialled = agent(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"), 0

    def counted() -> socket.socket:
        nonlocal dialled
        dialled += 1
        return dial()

    def pieces() -> Iterator[bytes]:
        yield b"half of it"
        raise failure

    channel = Channel(counted, "box", "token", lost)
    with pytest.raises(SandboxError) as caught:
        channel.upload("/v1/files", pieces(), query={"path": "f"})
    assert (caught.value.fault.code, caught.value.fault.attributable) == (code, "client")
    assert channel.ask("GET", "/v1/health").record() == {} and dialled == 2
    channel.close()


def test_a_busy_agent_is_waited_for_until_it_lets_one_in(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener, ExitStack() as stack:
        listener.bind(str(tmp_path / "s"))
        listener.listen(1)
        before = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2)]
        for sock in before:
            sock.connect(str(tmp_path / "s"))

        def let_in() -> None:
            for _ in before:
                listener.accept()[0].close()
            sock, _ = listener.accept()
            with sock:
                sock.recv(1 << 16)
                sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

        channel = Channel(str(tmp_path / "s"), "box", "token", lost)
        timer = threading.Timer(0.2, let_in)
        timer.start()
        assert channel.ask("GET", "/v1/health", wait_s=20).record() == {}
        timer.join()
        channel.close()


def test_without_a_descriptor_for_it_no_agent_is_called_lost() -> None:
    def dial() -> socket.socket:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with pytest.raises(SandboxError) as caught:
        Channel(dial, "box", "token", lost).ask("GET", "/v1/health")
    assert (caught.value.fault.code, caught.value.fault.effect) == ("infra.agent_unreachable", "none")
