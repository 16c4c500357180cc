"""Clients that begin to send and do not go on: they hold up nobody else."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import uvicorn

from orchard_cli.env.local.local import LocalEnv
from orchard_cli.env.service.serve import serving
from orchard_cli.env.service.service import Settings

from .conftest import ROOT, Rest

CHORES = 32  # threads that do all that is neither a command nor its input
HEAD = "PUT /v1/sandboxes/{}/{}?path=f HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\n\r\n"
UPGRADE = (
    "GET /v1/sandboxes/{}/execs/{}/attach HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer {}\r\nConnection: Upgrade\r\n"
    "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
CLOSE, PING = 8, 9  # of frames


@pytest.fixture
def own(shared_env: LocalEnv, tmp_path: Path) -> Iterator[Rest]:
    with serving(shared_env, Settings(tmp_path / "state", ROOT)) as url:
        yield Rest(url)


@pytest.mark.parametrize("kind", ["tar", "files"])
def test_uploads_that_stand_still_keep_nothing_from_being_closed(own: Rest, kind: str) -> None:
    id, other = own.make(), own.make()
    sent = bytes(5 << 20) if kind == "files" else bytes(1 << 10)
    with ExitStack() as stack:
        for _ in range(CHORES):
            wire = stack.enter_context(socket.create_connection(_place(own)))
            wire.sendall(HEAD.format(id, kind, ROOT, len(sent) + 1).encode() + sent)
        for _ in range(CHORES):  # as many as there are threads: each has been given to one of them by then
            assert own("GET", f"/v1/sandboxes/{other}/names").status == 200
        assert own("DELETE", f"/v1/sandboxes/{other}").status == 204


def _place(rest: Rest) -> tuple[str, int]:
    parts = urlsplit(rest.url)
    return parts.hostname or "", parts.port or 0


def test_who_does_not_read_for_a_while_is_not_cut_off(
    shared_env: LocalEnv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does it answer pings then, as they lie behind what it has not read."""
    hasty = partial(uvicorn.Config, ws_ping_interval=0.05, ws_ping_timeout=0.05)
    monkeypatch.setattr(uvicorn, "Config", hasty)
    with serving(shared_env, Settings(tmp_path / "state", ROOT)) as url:
        own = Rest(url)
        id = own.make()
        begun = own("POST", f"/v1/sandboxes/{id}/execs", {"script": "sleep 60"}).json["id"]
        with socket.create_connection(_place(own), 20) as wire, wire.makefile("rb") as said:
            wire.sendall(UPGRADE.format(id, begun, ROOT).encode())
            while said.readline() != b"\r\n":
                pass
            pings = 0
            while pings < 5:
                kind, size = said.read(2)
                said.read(size if size < 126 else int.from_bytes(said.read(2), "big"))
                assert kind & 15 != CLOSE
                pings += kind & 15 == PING
