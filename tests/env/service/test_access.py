"""Keys, scopes, tenants, quotas, the audit log, and what is open to all."""

import json
from pathlib import Path

import pytest

from orchard_cli.env.local.local import LocalEnv
from orchard_cli.env.service.serve import Place, listen, serving
from orchard_cli.env.service.service import Settings
from orchard_cli.errors import ConfigError

from .conftest import Rest


def test_without_a_key_and_with_a_wrong_one(rest: Rest) -> None:
    assert (reply := Rest(rest.url, "")("GET", "/v1/sandboxes")).status == 401
    assert (reply.code, reply.headers["www-authenticate"]) == ("client.no_key", "Bearer")
    for key in ("nonsense", "orc_abc_def", "orc__", "root-kez"):
        assert Rest(rest.url, key)("GET", "/v1/sandboxes").code == "client.wrong_key"
    by_header = Rest(rest.url, "")("GET", "/v1/sandboxes", None, {"X-API-Key": rest.key})
    assert by_header.status == 200


def test_liveness_and_readiness_need_no_key(rest: Rest) -> None:
    nobody = Rest(rest.url, "")
    assert nobody("GET", "/livez").json == {"alive": True}
    assert nobody("GET", "/readyz").json["ready"] is True
    assert nobody("GET", "/metrics").status == 401


def test_a_scope_is_all_that_a_key_may(rest: Rest) -> None:
    id = rest.make()
    reader = rest.keyed(tenant="default", scopes=["read"])
    assert reader("GET", f"/v1/sandboxes/{id}").status == 200
    for method, path in (("POST", f"/v1/sandboxes/{id}/execs"), ("DELETE", f"/v1/sandboxes/{id}"), ("GET", "/v1/keys")):
        assert reader(method, path).code == "client.forbidden"


def test_another_tenants_sandbox_does_not_exist(rest: Rest) -> None:
    one, two = rest.keyed(tenant="one"), rest.keyed(tenant="two")
    id = one.make()
    exec_id = one.run(id, "echo private").json["id"]
    base = f"/v1/sandboxes/{id}"
    tried = (
        ("GET", base),
        ("DELETE", base),
        ("POST", f"{base}/execs"),
        ("GET", f"{base}/execs/{exec_id}"),
        ("GET", f"{base}/execs/{exec_id}/events"),
        ("GET", f"{base}/files"),
        ("GET", f"{base}/diff"),
        ("POST", f"{base}/fork"),
        ("POST", f"{base}/lease"),
        ("GET", f"/jobs/{id}.{exec_id}"),
    )
    for method, path in tried:
        body = {"script": "true"} if path.endswith("execs") else {}
        reply = two(method, path, body if method == "POST" else None)
        assert (reply.status, reply.code) == (404, "client.no_such_sandbox"), path
    assert two("GET", "/v1/sandboxes").json["items"] == []
    assert two("POST", "/v1/leases", {"ids": [id]}).json["unknown"] == [id]
    assert one.out(id, "echo fine") == "fine\n"


def test_quotas_are_of_the_key(rest: Rest) -> None:
    small = rest.keyed(tenant="small", max_sandboxes=1, max_execs=1)
    id = small.make()
    full = small("POST", "/v1/sandboxes", {})
    assert (full.status, full.code, full.json["retry"]) == (429, "capacity.quota", "same")
    small("POST", f"/v1/sandboxes/{id}/execs", {"script": "sleep 20"})
    assert small.run(id, "true").code == "capacity.quota"
    small("DELETE", f"/v1/sandboxes/{id}")
    assert small.make()


def test_a_withdrawn_key_is_no_key(rest: Rest) -> None:
    made = rest("POST", "/v1/keys", {"tenant": "brief"}).json
    brief = Rest(rest.url, made["secret"])
    assert brief("GET", "/v1/sandboxes").status == 200
    assert made["secret"] not in json.dumps(rest("GET", "/v1/keys").json)
    rest("DELETE", f"/v1/keys/{made['id']}")
    assert brief("GET", "/v1/sandboxes").code == "client.wrong_key"


def test_keys_are_kept_as_hashes_only(rest: Rest) -> None:
    secret = rest("POST", "/v1/keys", {"tenant": "hashed"}).json["secret"].encode()
    for path in rest.state.glob("store.sqlite*"):
        assert secret not in path.read_bytes()
        assert secret.rpartition(b"_")[2] not in path.read_bytes()


def test_who_did_what_is_written_down(rest: Rest) -> None:
    who = rest.keyed(tenant="watched")
    id = who.make()
    who.run(id, "echo very-private")
    who("GET", "/v1/keys")
    lines = rest("GET", "/v1/audit", tenant="watched").json
    assert [(line["operation"], line["status"]) for line in lines] == [
        ("POST /v1/sandboxes", 201),
        ("POST /v1/sandboxes/{id}/execs", 200),
        ("GET /v1/keys", 403),
    ]
    assert lines[1]["sandbox"] == id
    assert "very-private" not in (rest.state / "audit.jsonl").read_text()


def test_metrics_count(rest: Rest) -> None:
    id = rest.make()
    rest.run(id, "true")
    rest("GET", "/v1/sandboxes/sb-none")
    page = rest("GET", "/metrics").body.decode()
    assert 'orchard_env_sandboxes{state="ready"} 1.0' in page
    assert 'orchard_env_requests_total{route="POST /v1/sandboxes/{id}/execs",status="200"}' in page
    assert 'orchard_env_faults_total{attributable="client",code="client.no_such_sandbox"}' in page


def test_without_keys_only_this_machines_programs_are_served(shared_env: LocalEnv, tmp_path: Path) -> None:
    with serving(shared_env, Settings(tmp_path / "state", auth=False)) as url:
        nobody = Rest(url, "")
        assert nobody("GET", "/v1/sandboxes").status == 200
        page = nobody("POST", "/v1/sandboxes", {}, {"Origin": "https://evil.example"})
        bent = nobody("GET", "/v1/sandboxes", None, {"Host": "evil.example:80"})
        assert (page.code, bent.code) == ("client.forbidden", "client.forbidden")


def test_without_keys_no_other_address_is_listened_on() -> None:
    with pytest.raises(ConfigError, match="not loopback"):
        listen(Place("0.0.0.0"), auth=False)


def test_two_servers_do_not_share_a_state_folder(rest: Rest, shared_env: LocalEnv) -> None:
    with pytest.raises(ConfigError, match="another server uses"), serving(shared_env, Settings(rest.state)):
        pass
