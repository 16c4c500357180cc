"""Commands over REST: results, bytes, cursors, exactly once."""

import json
import time
from base64 import b64decode, b64encode
from concurrent.futures import ThreadPoolExecutor

from .conftest import Rest


def test_a_script_and_an_argv(rest: Rest) -> None:
    id = rest.make()
    done = rest.run(id, "echo out; echo err >&2; exit 3").json["result"]
    assert (done["stdout"]["text"], done["stderr"]["text"], done["exit_code"]) == ("out\n", "err\n", 3)
    argv = {"argv": ["printf", "%s|", "a b", "", "c\nd"]}
    done = rest("POST", f"/v1/sandboxes/{id}/execs", argv, wait=30).json["result"]
    assert done["stdout"]["text"] == "a b||c\nd|"


def test_bytes_that_are_no_text_come_whole(rest: Rest) -> None:
    id, data = rest.make(), bytes(range(256))
    body = {"argv": ["cat"], "stdin_b64": b64encode(data).decode()}
    done = rest("POST", f"/v1/sandboxes/{id}/execs", body, wait=30).json["result"]
    assert b64decode(done["stdout"]["b64"]) == data


def test_a_wait_that_ends_first_is_no_end(rest: Rest) -> None:
    id = rest.make()
    begun = rest("POST", f"/v1/sandboxes/{id}/execs", {"script": "sleep 0.5; echo late"})
    assert (begun.status, begun.json["state"]) == (202, "running")
    ended = rest("GET", f"/v1/sandboxes/{id}/execs/{begun.json['id']}", wait=30).json
    assert ended["result"]["stdout"]["text"] == "late\n"


def test_124_is_what_the_command_said_and_a_timeout_is_a_timeout(rest: Rest) -> None:
    id = rest.make()
    assert rest.run(id, "exit 124").json["result"]["reason"] == "exited"
    timed = rest.run(id, "echo before; sleep 30", timeout_s=0.3).json["result"]
    assert (timed["reason"], timed["stdout"]["text"]) == ("timeout", "before\n")
    assert rest.out(id, "echo alive") == "alive\n"


def test_events_go_on_from_a_cursor(rest: Rest) -> None:
    id = rest.make()
    exec_id = rest.run(id, "echo one; echo two >&2").json["id"]
    path = f"/v1/sandboxes/{id}/execs/{exec_id}/events"
    frames = [json.loads(line) for line in rest("GET", path).body.splitlines()]
    assert [frame["seq"] for frame in frames] == list(range(1, len(frames) + 1))
    assert frames[0]["type"] == "started"
    assert frames[-1]["type"] == "exit"
    assert [f["text"] for f in frames if f["type"] in ("out", "err")] == ["one\n", "two\n"]
    rest_of_it = [json.loads(line) for line in rest("GET", path, after=2).body.splitlines()]
    assert rest_of_it == frames[2:]


def test_run_and_follow_in_one_request(rest: Rest) -> None:
    id = rest.make()
    reply = rest("POST", f"/v1/sandboxes/{id}/execs:stream", {"script": "echo hi"})
    assert reply.headers["x-orchard-exec"].startswith("ex-")
    assert json.loads(reply.body.splitlines()[-1])["exit_code"] == 0


def test_the_same_key_runs_once(rest: Rest) -> None:
    id, key = rest.make(), {"Idempotency-Key": "k1"}
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: rest.run(id, "echo x >>log; cat log", key), range(8)))
    assert {reply.json["id"] for reply in replies} == {replies[0].json["id"]}
    assert {reply.json["result"]["stdout"]["text"] for reply in replies} == {"x\n"}
    assert rest.out(id, "cat log") == "x\n"


def test_the_same_key_with_another_body_is_refused(rest: Rest) -> None:
    id, key = rest.make(), {"Idempotency-Key": "k2"}
    rest.run(id, "echo x >>log", key)
    refused = rest.run(id, "echo y >>log", key)
    assert (refused.status, refused.code) == (409, "client.key_reused")
    assert rest.out(id, "cat log") == "x\n"


def test_a_request_that_was_refused_leaves_its_key_free(rest: Rest) -> None:
    id, key = rest.make(), {"Idempotency-Key": "k3"}
    assert rest.run(id, "true", key, timeout_s=-1).status == 400
    assert rest.run(id, "true", key).status == 200


def test_the_same_key_makes_one_sandbox(rest: Rest) -> None:
    key = {"Idempotency-Key": "k4"}
    made = [rest("POST", "/v1/sandboxes", {"labels": {"once": "1"}}, key, wait=30).json["id"] for _ in range(3)]
    assert len(set(made)) == 1
    assert len(rest("GET", "/v1/sandboxes", label="once=1").json["items"]) == 1


def test_a_key_is_of_its_tenant(rest: Rest) -> None:
    first, second = rest.keyed(tenant="one"), rest.keyed(tenant="two")
    key = {"Idempotency-Key": "k5"}
    ids = [who("POST", "/v1/sandboxes", {}, key, wait=30).json["id"] for who in (first, second)]
    assert ids[0] != ids[1]


def test_a_list_of_commands_holds_no_output(rest: Rest) -> None:
    id = rest.make()
    rest.run(id, "head -c 100000 /dev/zero | tr '\\0' x; echo err >&2; exit 3")
    reply = rest("GET", f"/v1/sandboxes/{id}/execs")
    result = reply.json[0]["result"]
    assert (result["exit_code"], result["stdout"]["seen"], result["stderr"]["seen"]) == (3, 100_000, 4)
    assert len(reply.body) < 1000


def test_results_are_kept_within_bounds(rest: Rest) -> None:
    id = rest.make()
    big = [rest.run(id, "head -c 1000000 /dev/zero").json["id"] for _ in range(20)]
    dropped = rest("GET", f"/v1/sandboxes/{id}/execs/{big[0]}")
    assert (dropped.status, dropped.code, dropped.json["effect"]) == (410, "client.result_dropped", "complete")
    assert rest("GET", f"/v1/sandboxes/{id}/execs/{big[-1]}").json["state"] == "done"


def test_a_background_child_does_not_hold_the_call(rest: Rest) -> None:
    began = time.monotonic()
    done = rest.run(rest.make(), "sleep 60 & echo started").json["result"]
    assert done["stdout"]["text"] == "started\n"
    assert len(done["left_running"]) == 1
    assert time.monotonic() - began < 30


def test_secrets_are_used_and_written_nowhere(rest: Rest) -> None:
    id, secret = rest.make(env={"AT_CREATE": "hidden-1"}), "hidden-2"
    assert rest.out(id, 'echo "$TOKEN" | wc -c', secrets={"TOKEN": secret}) == "9\n"
    rest.run(id, f"echo {secret}", {"Idempotency-Key": "with-secret"}, secrets={"TOKEN": secret})
    for path in rest.state.rglob("*"):
        if path.is_file():
            assert b"hidden-" not in path.read_bytes(), path
