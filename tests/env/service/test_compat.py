"""A client written for the published reference API works: X-API-Key, /sandboxes, /jobs."""

from base64 import b64decode, b64encode
from typing import Any

import pytest

from orchard_cli.env.service.compat import quantity
from orchard_cli.errors import SandboxError

from .conftest import Reply, Rest


class OldClient:
    """As theirs asks: its header, its routes, its bodies."""

    def __init__(self, rest: Rest):
        self._rest, self._headers = Rest(rest.url, ""), {"X-API-Key": rest.key}

    def __call__(self, method: str, path: str, body: Any = None, /, **query: object) -> Reply:
        return self._rest(method, path, body, self._headers, **query)


@pytest.fixture
def old(rest: Rest) -> OldClient:
    return OldClient(rest)


def made(old: OldClient, **more: object) -> str:
    wanted = {"image": "host", "block_network": True, "cpu": "1", "memory": "512Mi", "timeout": 60, "unknown": 1}
    id = str(old("POST", "/sandboxes", wanted | more).json["sandbox_id"])
    assert old("GET", f"/sandboxes/{id}/wait", timeout=30).json["ready"] is True
    return id


def test_their_life_of_a_sandbox(old: OldClient) -> None:
    id = made(old, sandbox_id="theirs")
    assert id == "theirs"
    assert old("GET", f"/sandboxes/{id}").json["block_network"] is True
    assert old("POST", f"/sandboxes/{id}/heartbeat").json["status"] == "ok"
    assert old("DELETE", f"/sandboxes/{id}").status == 204
    assert old("GET", "/health").json["status"] == "healthy"


def test_their_commands_and_jobs(old: OldClient) -> None:
    id = made(old)
    done = old("POST", f"/sandboxes/{id}/exec", {"command": "echo out; echo err >&2; exit 3", "wait": True}).json
    assert (done["status"], done["stdout"], done["stderr"], done["exit_code"]) == ("succeeded", "out\n", "err\n", 3)
    again = old("GET", f"/jobs/{done['job_id']}").json
    assert again == done
    begun = old("POST", f"/sandboxes/{id}/exec", {"command": "sleep 0.3; echo late", "wait": False}).json
    assert begun["status"] == "running"
    assert old("GET", f"/jobs/{begun['job_id']}/wait", timeout=30).json["stdout"] == "late\n"


def test_their_list_is_an_argv_here(old: OldClient) -> None:
    id = made(old)
    done = old("POST", f"/sandboxes/{id}/exec", {"command": ["printf", "%s|", "a b", "$HOME"]}).json
    assert done["stdout"] == "a b|$HOME|"


def test_their_timeout_leaves_the_sandbox_alive(old: OldClient) -> None:
    id = made(old)
    timed = old("POST", f"/sandboxes/{id}/exec", {"command": "echo so far; sleep 30", "timeout_seconds": 0.5}).json
    assert (timed["exit_code"], timed["reason"], timed["stdout"]) == (124, "timeout", "so far\n")
    own = old("POST", f"/sandboxes/{id}/exec", {"command": "exit 124"}).json
    assert (own["exit_code"], own["reason"]) == (124, "exited")


def test_a_login_shell_keeps_tracebacks(old: OldClient) -> None:
    body = {"command": "python3 -c 'import nope'", "login_shell": True}
    done = old("POST", f"/sandboxes/{made(old)}/exec", body).json
    assert done["stderr"].startswith("Traceback")
    assert "No module named 'nope'" in done["stderr"]


def test_their_files_and_patch(old: OldClient) -> None:
    id, data = made(old), bytes(range(256))
    old("POST", f"/sandboxes/{id}/files", {"path": "d/f.bin", "content": b64encode(data).decode()})
    assert b64decode(old("GET", f"/sandboxes/{id}/files", path="d/f.bin").json["content"]) == data
    old("POST", f"/sandboxes/{id}/exec", {"command": "ln -s /none dangling"})
    files = old("GET", f"/sandboxes/{id}/files/list", path=".").json["files"]
    assert files == [{"name": "d", "is_dir": True}, {"name": "dangling", "is_dir": False}]
    patch = "--- /dev/null\n+++ b/new\n@@ -0,0 +1,2 @@\n+PATCH_EOF\n+x\n"
    assert old("POST", f"/sandboxes/{id}/apply_patch", {"patch": patch}).json["success"] is True
    assert old("POST", f"/sandboxes/{id}/exec", {"command": "cat new"}).json["stdout"] == "PATCH_EOF\nx\n"


def test_quantities() -> None:
    assert [quantity(text) for text in ("4", "500m", "16Gi", "1G", "0.5")] == [4, 0.5, 16 * 2**30, 1e9, 0.5]
    for wrong in ("many", "nan", "inf", "-1Gi", "1e300", ""):
        with pytest.raises(SandboxError):
            quantity(wrong)


def test_a_key_runs_no_more_at_once_by_their_routes_than_by_ours(rest: Rest) -> None:
    small = OldClient(rest.keyed(tenant="small", scopes=["read", "use", "create"], max_execs=1))
    id = made(small)
    body = {"command": "sleep 60", "wait": False}
    assert small("POST", f"/sandboxes/{id}/exec", body).json["status"] == "running"
    assert small("POST", f"/sandboxes/{id}/exec", body).code == "capacity.quota"
