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
