"""The operator of a server has each decision of its proxy in a file."""

import json
from pathlib import Path

from .test_crash import serve


def test_each_decision_is_a_line_with_its_sandbox(tmp_path: Path) -> None:
    log = tmp_path / "log"
    words = ("--network", "allowlist", "--allow", "example.test", "--network-log", str(log))
    with serve(tmp_path / "state", *words) as (rest, _):
        id = rest.make(network="allowlist", allow=["example.test"])
        rest.run(id, "curl -s -m 5 https://other.test/ || true")
        (line,) = map(json.loads, log.read_text().splitlines())
        told = rest("GET", f"/v1/sandboxes/{id}/network").json
        assert told["decisions"] == [line]
        assert rest("GET", f"/v1/sandboxes/{rest.make()}/network").json["decisions"] == []
    assert (line["host"], line["verdict"]) == ("other.test", "refused")
    assert line["sandbox"] == told["logged_as"]


def test_a_sandbox_that_asks_for_none_reaches_nothing_where_others_do(tmp_path: Path) -> None:
    words = ("--network", "open", "--allow", "127.0.0.3:8731")
    ask = "curl -s -o /dev/null -w '%{http_code}' -m 5 http://127.0.0.3:8731/ || true"
    with serve(tmp_path / "state", *words) as (rest, _):
        given, none = rest.make(), rest.make(network="none")
        assert [rest("GET", f"/v1/sandboxes/{id}").json["network"] for id in (given, none)] == ["open", "none"]
        assert rest.out(given, ask) == "502"  # the proxy lets it through to where nobody listens
        assert rest.out(none, ask) == "000"
        told = rest("PUT", f"/v1/sandboxes/{given}/network", {"network": "none"})
        assert (told.status, told.json["network"]) == (200, "none")
        assert rest.out(given, ask) == "403"
        assert rest("PUT", f"/v1/sandboxes/{given}/network", {"network": ""}).json["network"] == "open"
        assert rest.out(given, ask) == "502"
