"""Whoever does not read what he asked for, or reads what is not there, holds up nobody else."""

import json
import socket
import threading
import time
from contextlib import closing
from urllib.parse import urlsplit

from .conftest import Rest


def stalled(rest: Rest, path: str) -> socket.socket:
    """A reader that reads nothing."""
    parts = urlsplit(rest.url)
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect((parts.hostname, parts.port))
    sock.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {rest.key}\r\n\r\n".encode())
    return sock


def test_a_reader_that_stands_still_does_not_hold_the_end(rest: Rest) -> None:
    id = rest.make()
    run = rest("POST", f"/v1/sandboxes/{id}/execs", {"script": "yes", "paced": True, "timeout_s": 1}).json["id"]
    path = f"/v1/sandboxes/{id}/execs/{run}"
    with closing(stalled(rest, f"{path}/events")):
        time.sleep(0.5)
        assert rest("GET", path, wait=20).json["result"]["reason"] == "timeout"
        frames = [json.loads(line) for line in rest("GET", f"{path}/events", after=3).body.splitlines()]
        assert frames[-1]["type"] == "exit"


def test_a_reader_of_what_is_not_there_takes_nothing(rest: Rest) -> None:
    id = rest.make()
    body = {"script": "sleep 0.5; seq 400000", "paced": True, "timeout_s": 20}
    path = f"/v1/sandboxes/{id}/execs/{rest('POST', f'/v1/sandboxes/{id}/execs', body).json['id']}"
    with closing(stalled(rest, f"{path}/events?after=1000000")):
        time.sleep(0.2)
        frames = [json.loads(line) for line in rest("GET", f"{path}/events").body.splitlines()]
    assert "gap" not in {frame["type"] for frame in frames}
    assert sum(len(frame.get("text", "")) for frame in frames) == 2_688_895


def test_commands_that_do_not_read_their_input_hold_up_nobody(rest: Rest) -> None:
    id = rest.make()
    body = {"script": "sleep 60", "open_stdin": True}
    runs = [rest("POST", f"/v1/sandboxes/{id}/execs", body).json["id"] for _ in range(33)]
    paths = [f"/v1/sandboxes/{id}/execs/{run}" for run in runs]
    feeding = [threading.Thread(target=rest, args=("POST", f"{path}/stdin", bytes(2 << 20))) for path in paths]
    for thread in feeding:
        thread.start()
    time.sleep(2)
    began = time.monotonic()
    for path in paths:
        assert rest("POST", f"{path}/cancel").status == 200
    assert time.monotonic() - began < 20
    for thread in feeding:
        thread.join(30)
