"""What comes over the socket: broken requests, and the WebSocket frames of a terminal."""

import base64
import json
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchard_cli.env.agent.output import Ring
from orchard_cli.env.agent.request import Request
from orchard_cli.env.agent.websocket import Broken, Frames, accept_key, frame
from orchard_cli.env.execution import Terminal
from orchard_cli.env.running import Running, start
from orchard_cli.errors import SandboxError

from .conftest import TOKEN, Place


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET /v1/health HTTP/1.1\r\nContent-Length: x\r\n\r\n", b"400"),
        (b"GET /v1/health HTTP/1.1\r\nContent-Length: -5\r\n\r\n", b"400"),
        (b"GET /v1/health HTTP/1.1\r\n\r\n", b"401"),
        (b"GET /v1/health HTTP/1.1\r\nAuthorization: Bearer \xff\r\n\r\n", b"401"),
        (b"x" * 70_000, b"400"),
        (b"POST /v1/execs HTTP/1.1\r\nAuthorization: Bearer TOKEN\r\nContent-Length: 999999999\r\n\r\n", b"413"),
        (b"POST /v1/execs HTTP/1.1\r\nAuthorization: Bearer TOKEN\r\nConnection: close\r\n\r\n", b"400"),
        (b"GET /nowhere HTTP/1.1\r\nAuthorization: Bearer TOKEN\r\nConnection: close\r\n\r\n", b"404"),
        (b"GET /v1/files HTTP/1.1\r\nAuthorization: Bearer TOKEN\r\nConnection: close\r\n\r\n", b"400"),
        (b"GET /v1/files?path=%4 HTTP/1.1\r\nAuthorization: Bearer TOKEN\r\nConnection: close\r\n\r\n", b"400"),
        (b"GET /v1/%zz HTTP/1.1\r\nAuthorization: Bearer TOKEN\r\nConnection: close\r\n\r\n", b"400"),
        (b"GET /v1/execs/../x HTTP/1.1\r\nAuthorization: Bearer TOKEN\r\nConnection: close\r\n\r\n", b"404"),
    ],
)
def test_broken_requests_get_an_answer_and_do_no_harm(place: Place, request_bytes: bytes, status: bytes) -> None:
    assert place.raw(request_bytes).split(b" ")[1] == status
    assert place.channel.ask("GET", "/v1/health").status == 200


@pytest.mark.parametrize("given", [{"env": {"A": 0}}, {"env": {"A": []}}, {"argv": ["echo", 1]}, {"env": {"A": "\0"}}])
def test_word_that_is_no_text_is_refused(place: Place, given: dict[str, object]) -> None:
    body = json.dumps({**({} if "argv" in given else {"script": "echo"}), **given}).encode()
    with pytest.raises(SandboxError, match="no text"):
        place.channel.ask("POST", "/v1/execs", body, headers={"Idempotency-Key": "x"})
    assert place.channel.ask("GET", "/v1/health").status == 200


@given(st.text(), st.dictionaries(st.text(min_size=1), st.binary()))
def test_any_path_and_query_arrive_as_they_were_sent(part: str, query: dict[str, bytes]) -> None:
    part = part.encode(errors="replace").decode()
    query = {name.encode(errors="replace").decode(): value for name, value in query.items()}
    target = f"/v1/{quote(part, safe='')}?{urlencode(query, quote_via=quote)}"
    request = Request(f"GET {target} HTTP/1.1".encode())
    assert request.parts == ["v1", part]
    assert {name: os.fsencode(value) for name, value in request.query.items()} == query


def test_answers_on_one_connection_come_in_order(place: Place) -> None:
    head = f"Authorization: Bearer {TOKEN}\r\n".encode()
    one = b"GET /v1/health HTTP/1.1\r\n" + head + b"\r\n"
    last = b"GET /v1/execs HTTP/1.1\r\nConnection: close\r\n" + head + b"\r\n"
    assert place.raw(one * 5 + last).count(b"HTTP/1.1 200 OK") == 6


def test_client_that_leaves_does_not_end_its_command(place: Place) -> None:
    body = json.dumps({"script": "sleep 0.2; echo x >stayed; cat stayed"}).encode()
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(place.address)
        head = f"POST /v1/execs?wait_s=9 HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\nIdempotency-Key: left\r\n"
        sock.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    assert start(place.channel, "sleep 0.2; echo x >stayed; cat stayed", key="left-other").wait().stdout == b"x\n"
    assert (place.workdir / "stayed").read_text() == "x\n"


@contextmanager
def attached(place: Place, running: Running, query: str = "") -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(10)
        sock.connect(place.address)
        key = base64.b64encode(os.urandom(16)).decode()
        sock.sendall(
            f"GET /v1/execs/{running.id}/attach{query} HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n"
            f"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode()
        )
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += sock.recv(1)
        assert head.startswith(b"HTTP/1.1 101") and accept_key(key).encode() in head
        yield sock


def masked(kind: int, data: bytes, *, last: bool = True) -> bytes:
    mask = b"\x12\xab\x56\xef"
    size = bytes((0x80 | len(data),)) if len(data) < 126 else b"\xff" + struct.pack(">Q", len(data))
    return bytes((0x80 * last | kind,)) + size + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(data))


def received(sock: socket.socket) -> Iterator[tuple[int, bytes]]:
    buffer = b""
    while True:
        while len(buffer) < 2 or len(buffer) < _end(buffer):
            data = sock.recv(65536)
            if not data:
                return
            buffer += data
        end = _end(buffer)
        yield buffer[0] & 15, buffer[{126: 4, 127: 10}.get(buffer[1], 2) : end]
        buffer = buffer[end:]


def _end(buffer: bytes) -> int:
    size = buffer[1]
    if size == 126:
        return 4 + int.from_bytes(buffer[2:4], "big") if len(buffer) >= 4 else 4
    if size == 127:
        return 10 + int.from_bytes(buffer[2:10], "big") if len(buffer) >= 10 else 10
    return 2 + size


def test_terminal_over_a_websocket(place: Place) -> None:
    running = start(place.channel, "echo ready; read -r a; stty size; echo got $a; exit 7", terminal=Terminal())
    with attached(place, running) as sock:
        sock.sendall(masked(1, json.dumps({"resize": [20, 50]}).encode()))
        sock.sendall(masked(2, b"\0he", last=False) + masked(9, b"ping") + masked(0, b"llo\n"))
        frames = list(received(sock))
    said = b"".join(data[9:] for kind, data in frames if kind == 2)
    assert b"20 50" in said and b"got hello" in said
    assert (10, b"ping") in frames and frames[-1] == (8, struct.pack(">H", 1000))
    assert [json.loads(data)["exit_code"] for kind, data in frames if kind == 1 and b'"exit"' in data] == [7]


def test_second_reader_sees_the_same_from_the_beginning(place: Place) -> None:
    running = start(place.channel, "for i in 1 2 3; do echo $i; sleep 0.02; done")
    with attached(place, running) as one, attached(place, running) as two:
        assert list(received(one)) == list(received(two))


def test_leaving_ends_the_command_only_if_asked(place: Place) -> None:
    stays, goes = (start(place.channel, "sleep 0.4; echo done") for _ in range(2))
    with attached(place, stays):
        pass
    with attached(place, goes, "?kill_on_detach=1"):
        pass
    assert (stays.wait(10).reason, goes.wait(10).reason) == ("exited", "cancelled")


def test_a_size_that_comes_after_the_end_costs_no_output(place: Place) -> None:
    running = start(place.channel, "head -c 900000 /dev/zero | tr '\\0' x", terminal=Terminal())
    with attached(place, running) as sock:
        assert running.wait(20).stdout_bytes == 900_000
        sock.sendall(masked(1, b'{"resize":[30,90]}'))
        frames = list(received(sock))
    assert sum(len(data) - 9 for kind, data in frames if kind == 2) == 900_000
    assert frames[-1] == (8, struct.pack(">H", 1000))


def test_leaving_is_seen_while_the_command_takes_no_input(place: Place) -> None:
    running = start(place.channel, "exec sleep 60", stdin=None)
    with attached(place, running, "?kill_on_detach=1") as sock:
        for _ in range(19):
            sock.sendall(masked(2, bytes(60_000)))
    assert running.wait(20).reason == "cancelled"


def test_what_was_sent_before_leaving_is_still_taken(place: Place) -> None:
    running = start(place.channel, "until [ -e go ]; do sleep 0.02; done; wc -c", stdin=None)
    with attached(place, running) as sock:
        for _ in range(19):
            sock.sendall(masked(2, b"\0" + bytes(60_000)))
        sock.sendall(masked(1, b'{"eof":true}'))
    assert place.channel.ask("GET", "/v1/health").status == 200  # it has seen that
    (place.workdir / "go").touch()
    assert running.wait(20).stdout == b"1140000\n"
    (place.workdir / "go").unlink()


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (b"\x82\x01x", 1002),  # not masked
        (b"\xf2\x80aaaa", 1002),  # reserved bits
        (b"\x83\x80aaaa", 1002),  # no such kind
        (b"\x09\x80aaaa", 1002),  # a ping in parts
        (b"\x80\x80aaaa", 1002),  # goes on with nothing
        (b"\x82\xff" + struct.pack(">Q", 1 << 62) + b"aaaa", 1009),
        (masked(1, b"no json"), 1008),
        (masked(1, b'{"resize":[0,0]}'), 1008),
        (masked(1, b"[]"), 1008),
        (masked(1, b'{"signal":1e999}'), 1008),
        (masked(1, b'{"signal":99999999999}'), 1008),
        (masked(1, b"[" * 50_000), 1008),
        (masked(2, b"\x05data"), 1008),
    ],
)
def test_malformed_frames_close_with_a_code_and_spare_the_command(place: Place, bad: bytes, code: int) -> None:
    running = start(place.channel, "read -r a; echo got $a", terminal=Terminal())
    with attached(place, running) as sock:
        sock.sendall(bad)
        assert list(received(sock))[-1] == (8, struct.pack(">H", code))
    running.write(b"on\n")
    assert b"got on" in running.wait(10).stdout


@settings(deadline=None)
@given(messages=st.lists(st.binary(max_size=300), max_size=5), size=st.integers(1, 50))
def test_frames_survive_any_cutting(messages: list[bytes], size: int) -> None:
    stream, frames, seen = b"".join(masked(2, data) for data in messages), Frames(), []
    for at in range(0, len(stream), size):
        seen += frames.feed(stream[at : at + size])
    assert seen == [(2, data) for data in messages]


@settings(deadline=None)
@given(data=st.binary(max_size=60))
def test_any_bytes_are_taken_or_refused(data: bytes) -> None:
    try:
        Frames().feed(data)
    except Broken as broken:
        assert broken.args[0] in (1002, 1009)


@settings(deadline=None)
@given(data=st.binary(max_size=70_000))
def test_frame_tells_its_length(data: bytes) -> None:
    assert _end(frame(2, data)) == len(frame(2, data))


@settings(deadline=None)
@given(
    pieces=st.lists(st.binary(min_size=1, max_size=12), max_size=40), cap=st.integers(0, 60), after=st.integers(0, 45)
)
def test_ring_gives_the_rest_of_all_from_any_cursor(pieces: list[bytes], cap: int, after: int) -> None:
    """What a cursor gets is what it would have got by reading all along, but for one gap that is told at the start."""
    ring = Ring(cap)
    for piece in pieces:
        ring.add("out", piece)
    events = list(ring.events(after))
    if events and events[0][1][1] == "gap":
        told = events.pop(0)[1][2]
        assert told["from"] == after + 1 and (not events or told["to"] == events[0][0] - 1)
        after = told["to"]
    assert [(number, event[2]) for number, event in events] == list(enumerate(pieces, 1))[after:]
    assert sum(len(event[2]) for _, event in events[:-1]) <= cap


def test_a_place_beyond_all_events_is_refused(place: Place) -> None:
    running = start(place.channel, "true")
    running.wait()
    with pytest.raises(SandboxError, match="after is no number"):
        place.channel.ask("GET", f"/v1/execs/{running.id}/events", query={"after": 1e30})
    assert place.channel.ask("GET", "/v1/health").status == 200
