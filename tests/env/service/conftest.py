"""A real server over real sandboxes, on a real port; an audit around every test that uses it."""

import http.client
import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from orchard_cli.env.local.local import LocalEnv
from orchard_cli.env.service.live import Terms
from orchard_cli.env.service.serve import serving
from orchard_cli.env.service.service import Settings

from .postgres import postgres

__all__ = ["postgres"]
ROOT = "root-key"


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        assert self.headers["content-type"] == "application/problem+json", self.body
        return str(self.json["code"])


@dataclass(frozen=True)
class Rest:
    """Plain HTTP with a key; JSON bodies unless bytes are given."""

    url: str
    key: str = ROOT
    state: Path = Path()

    def __call__(
        self, method: str, url: str, body: object = None, headers: dict[str, str] | None = None, /, **query: object
    ) -> Reply:
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=60)
        sent = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        with closing(connection):
            connection.request(method, url + ("?" + urlencode(query) if query else ""), data, sent | (headers or {}))
            reply = connection.getresponse()
            return Reply(reply.status, {k.lower(): v for k, v in reply.getheaders()}, reply.read())

    def make(self, **body: object) -> str:
        reply = self("POST", "/v1/sandboxes", body, wait=30)
        assert reply.status == 201, reply.body
        return str(reply.json["id"])

    def run(self, id: str, script: str, headers: dict[str, str] | None = None, **more: object) -> Reply:
        return self("POST", f"/v1/sandboxes/{id}/execs", {"script": script, **more}, headers, wait=30)

    def out(self, id: str, script: str, **more: object) -> str:
        reply = self.run(id, script, **more)
        assert reply.status == 200, reply.body
        return str(reply.json["result"]["stdout"]["text"])

    def keyed(self, **body: object) -> "Rest":
        """The same server with a new key."""
        return Rest(self.url, self("POST", "/v1/keys", body).json["secret"], self.state)


@pytest.fixture(scope="session")
def server(shared_env: LocalEnv, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rest]:
    state = tmp_path_factory.mktemp("service") / "state"
    settings = Settings(state, ROOT, terms=Terms(lease_s=600), max_body=4 << 20, upkeep_s=0.1)
    with serving(shared_env, settings) as url:
        yield Rest(url, state=state)


@pytest.fixture
def rest(server: Rest, env: LocalEnv) -> Iterator[Rest]:
    """The server; what a test leaves is deleted, and the machine is then as it was."""
    yield server
    for kind in ("sandboxes", "snapshots"):
        for item in server("GET", f"/v1/{kind}", limit=1000).json["items"]:
            assert server("DELETE", f"/v1/{kind}/{item['id']}").status == 204
