"""What a sandbox may reach, over REST: asked for, looked up, changed while it runs; one model and nothing else."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from orchard_cli.env.local.local import LocalEnv
from orchard_cli.env.network.endpoint import ModelEndpoint
from orchard_cli.env.remote import RemoteEnv
from orchard_cli.env.sandbox import Spec
from orchard_cli.env.service.serve import serving
from orchard_cli.env.service.service import Settings

from .conftest import ROOT, Rest


class Model(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        # the socket hides the key where an answer repeats it, so only its length is told
        body = f"model {len(self.headers.get('Authorization', ''))}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@contextmanager
def model() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Model) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()
            thread.join()


FETCH = "import os, urllib.request as r; print(r.urlopen(os.environ['ORCHARD_MODEL_URL'] + '/models').read().decode())"
ASK = ["python3", "-c", FETCH]


def test_nothing_is_reached_and_nothing_can_be_changed_without_a_proxy(rest: Rest) -> None:
    id = rest.make()
    assert rest("GET", f"/v1/sandboxes/{id}/network").json | {"logged_as": ""} == {
        "logged_as": "",
        "decisions": [],
        "network": "none",
        "allow": [],
        "changeable": False,
        "ended": 0,
    }
    reply = rest("PUT", f"/v1/sandboxes/{id}/network", {"network": "open"})
    assert (reply.status, reply.code) == (400, "client.bad_spec")


def test_more_than_the_server_allows_is_refused(rest: Rest) -> None:
    reply = rest("POST", "/v1/sandboxes", {"network": "open"}, wait=10)
    assert (reply.status, reply.code) == (400, "client.bad_spec")


def test_rules_that_the_server_can_never_obey_are_refused(tmp_path: Path) -> None:
    settings = Settings(tmp_path / "state", ROOT)
    with LocalEnv(network="allowlist", allow=("example.com",)) as env, serving(env, settings) as url:
        rest = Rest(url)
        asked = {"network": "allowlist", "allow": ["example.com", "google.com"]}
        for reply in (
            rest("POST", "/v1/sandboxes", asked),
            rest("PUT", f"/v1/sandboxes/{rest.make(network='allowlist', allow=['*.com'])}/network", asked),
        ):
            assert (reply.status, reply.code) == (400, "client.bad_spec")
            assert "google.com" in reply.json["detail"] and "--allow" in reply.json["hint"]
        assert [item["network"] for item in rest("GET", "/v1/sandboxes").json["items"]] == ["allowlist"]


def test_rules_are_changed_while_it_runs(tmp_path: Path) -> None:
    settings = Settings(tmp_path / "state", ROOT)
    with LocalEnv(network="open") as env, serving(env, settings) as url:
        rest = Rest(url)
        id = rest.make(network="allowlist", allow=["example.com"])
        assert rest("GET", f"/v1/sandboxes/{id}/network").json["changeable"] is True
        changed = rest("PUT", f"/v1/sandboxes/{id}/network", {"network": "allowlist", "allow": ["example.org"]})
        assert changed.status == 200, changed.body
        assert rest("GET", f"/v1/sandboxes/{id}/network").json["allow"] == ["example.org"]
        wrong = rest("PUT", f"/v1/sandboxes/{id}/network", {"network": "allowlist", "allow": ["http://x/y z"]})
        assert wrong.code == "client.bad_spec"


def test_a_model_that_nobody_offers_is_not_called(rest: Rest) -> None:
    reply = rest("POST", "/v1/sandboxes", {"model": {"base_url": "http://169.254.169.254/v1"}})
    assert (reply.status, reply.code) == (403, "client.forbidden")


def test_the_operators_model_is_reached_with_the_operators_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPERATORS_KEY", "from-operator")
    with model() as address, LocalEnv() as env:
        settings = Settings(tmp_path / "state", ROOT, models={address: ModelEndpoint(address, "OPERATORS_KEY")})
        with serving(env, settings) as url, RemoteEnv(url, ROOT, share=False) as remote:
            box = remote.open(Spec(model=ModelEndpoint(address, "CLIENTS_VARIABLE")))
            done = box.exec(ASK)
            assert done.stdout == b"model 20\n", done.stderr


def test_a_client_on_the_host_brings_its_own_model(rest: Rest) -> None:
    with model() as address, RemoteEnv(rest.url, rest.key) as remote:
        box = remote.open(Spec(model=ModelEndpoint(address)))
        done = box.exec(ASK)
        assert done.stdout == b"model 0\n", done.stderr
