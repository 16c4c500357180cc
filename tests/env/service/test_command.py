"""`orchard env …`: what it prints, its exit codes, and two lines for whatever goes wrong."""

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from .conftest import Rest


def orchard(
    rest: Rest, *words: str, key: str | None = None, url: str = "", stdin: str = "", cwd: Path | None = None
) -> "subprocess.CompletedProcess[str]":
    environment = {
        **os.environ,
        "ORCHARD_ENV_URL": url or rest.url,
        "ORCHARD_ENV_API_KEY": rest.key if key is None else key,
    }
    argv = [sys.executable, "-m", "orchard_cli", "env", *words]
    done = subprocess.run(argv, capture_output=True, text=True, env=environment, input=stdin, timeout=120, cwd=cwd)
    assert "Traceback" not in done.stderr
    return done


def test_a_command_in_a_new_sandbox(rest: Rest) -> None:
    done = orchard(rest, "exec", "new", "echo out; echo err >&2; exit 3")
    assert (done.stdout, done.stderr, done.returncode) == ("out\n", "err\n", 3)
    assert rest("GET", "/v1/sandboxes").json["items"] == []


def test_list_copy_and_run(rest: Rest, tmp_path: Path) -> None:
    id = rest.make(labels={"for": "cli"})
    (tmp_path / "in").write_bytes(b"\xff\x00")
    assert orchard(rest, "cp", str(tmp_path / "in"), f"{id}:there").returncode == 0
    assert orchard(rest, "cp", f"{id}:there", str(tmp_path / "back")).returncode == 0
    assert (tmp_path / "back").read_bytes() == b"\xff\x00"
    listed = json.loads(orchard(rest, "ps", "--json").stdout)
    assert [(item["id"], item["labels"]) for item in listed] == [(id, {"for": "cli"})]
    assert orchard(rest, "exec", id, "--", "ls", "-A").stdout == "there\n"


def test_one_that_stays_is_made_and_ended(rest: Rest, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\n")
    made = orchard(rest, "create", "--tree", str(tmp_path), "--label", "run=7", "--lifetime-s", "60")
    id = made.stdout.strip()
    assert made.returncode == 0
    (item,) = rest("GET", "/v1/sandboxes").json["items"]
    assert (item["id"], item["labels"], item["state"]) == (id, {"run": "7"}, "ready")
    assert item["expires"] - item["created"] < 61
    assert orchard(rest, "exec", id, "cat a.txt").stdout == "a\n"
    assert orchard(rest, "rm", id).returncode == 0
    assert rest("GET", "/v1/sandboxes").json["items"] == []


def test_a_life_that_is_shorter_than_asked_for_is_told(rest: Rest) -> None:
    made = orchard(rest, "create", "--lifetime-s", "864000")
    assert "kept for 86,400 s" in made.stderr and made.returncode == 0
    assert orchard(rest, "create", "--lifetime-s", "86400").stderr == ""


@pytest.mark.parametrize("words", [("none-such", "{id}:x"), ("{id}:none-such", "back"), ("{id}:f", "no/such/folder/f")])
def test_a_copy_that_fails_speaks_of_its_own_words(rest: Rest, words: tuple[str, str], tmp_path: Path) -> None:
    id = rest.make()
    rest.out(id, "echo x >f")
    source, target = (word.format(id=id) for word in words)
    done = orchard(rest, "cp", source, target, cwd=tmp_path)
    assert done.returncode in (1, 2) and done.stderr.startswith("error: ")
    assert "out=" not in done.stderr and "such" in done.stderr


def test_a_shell_keeps_its_folder(rest: Rest) -> None:
    done = orchard(rest, "shell", stdin="mkdir d\ncd d\npwd\n")
    assert "/workspace/d\n" in done.stdout
    assert rest("GET", "/v1/sandboxes").json["items"] == []


@pytest.mark.parametrize(
    ("words", "how", "said"),
    [
        (("ps",), {"key": "wrong"}, "not known here"),
        (("ps",), {"key": ""}, "API key is needed"),
        (("ps",), {"key": ""}, "hint: export ORCHARD_ENV_API_KEY="),
        (("ps",), {"key": "wrong"}, "hint: export ORCHARD_ENV_API_KEY="),
        (("create", "--network", "all"), {}, "--network all is not known"),
        (("create", "--tree", "/no/such"), {}, "/no/such"),
        (("create", "--id", "Not valid"), {}, "an id is up to 63"),
        (("create", "--label", "x"), {}, "not KEY=VALUE"),
        (("create", "--lifetime-s", "0"), {}, "above 0"),
        (("create", "--allow", "example.org"), {}, "network"),
        (("create", "--lifetime-s", "inf"), {}, "above 0"),
        (("create", "--lifetime-s", "nan"), {}, "above 0"),
        (("create", "--id", "new"), {}, "stands for"),
        (("exec", "--timeout-s", "nan", "sb-none", "true"), {}, "above 0"),
        (("exec", "--timeout-s", "0", "sb-none", "true"), {}, "above 0"),
        (("exec", "", "true"), {}, "name is empty"),
        (("shell", ""), {}, "name is empty"),
        (("cp", "/dev/null", ":x"), {}, "name is empty"),
        (("rm", ""), {}, "name is empty"),
        (("exec", "box?x=1", "true"), {}, "no sandbox box?x=1"),
        (("exec", "box/execs", "true"), {}, "cannot be a name"),
        (("rm", "../v1"), {}, "cannot be a name"),
        (("exec", ":smile:", "true"), {}, "no sandbox :smile:"),
        (("ps", "--label", "foo"), {}, "not KEY=VALUE"),
        (("rm", "sb-none"), {}, "there is no sandbox"),
        (("ps",), {"url": "nonsense"}, "not the address"),
        (("ps",), {"url": "http://127.0.0.1:1"}, "cannot be reached"),
        (("exec", "sb-none", "true"), {}, "there is no sandbox"),
        (("cp", "a", "b"), {}, "SANDBOX:PATH"),
        (("cp", "none-such", "sb-none:x"), {}, "no sandbox"),
        (("serve", "--host", "0.0.0.0", "--no-auth"), {}, "not loopback"),
        (("serve", "--image", "x"), {}, "NAME=PATH"),
        (("serve", "--port", "0", "--isolation", "magic"), {}, "not known"),
        (("serve", "--port", "0", "--isolation", "magic"), {}, "gvisor, container"),
        (("serve", "--port", "-1"), {}, "127.0.0.1:-1"),
        (("serve", "--port", "0", "--state", "/proc/foo"), {}, "a folder that this user can write"),
        (("serve", "--port", "0", "--state", "/dev/null"), {}, "a folder that this user can write"),
        (("serve", "--port", "0", "--database", "mysql://u:p@h"), {}, "hint: postgresql://"),
    ],
)
def test_what_goes_wrong_is_told_in_two_lines(
    rest: Rest, words: tuple[str, ...], how: dict[str, str], said: str
) -> None:
    done = orchard(rest, *words, **how)  # type: ignore[arg-type]
    assert done.returncode in (1, 2)
    assert done.stdout == ""
    assert done.stderr.startswith("error: ") and "hint: " in done.stderr
    assert said in done.stderr


def test_every_refusal_says_what_to_do(rest: Rest, tmp_path: Path) -> None:
    id = rest.make(id="taken", labels={"a": "1", "b": "2"})
    for words in (("create", "--id", id), ("cp", f"{id}:none", "x"), ("cp", "none", f"{id}:x"), ("cp", f"{id}:", "/")):
        done = orchard(rest, *words, cwd=tmp_path)
        assert done.stderr.startswith("error: ") and "hint: " in done.stderr, done.stderr
    assert json.loads(orchard(rest, "ps", "--json", "--label", "a=1", "--label", "b=2").stdout)
    assert not json.loads(orchard(rest, "ps", "--json", "--label", "a=9", "--label", "b=2").stdout)


def test_what_answers_there_is_no_server_of_ours(rest: Rest) -> None:
    done = orchard(rest, "ps", url=f"{rest.url}/v1")
    assert f"hint: without /v1: {rest.url}\n" in done.stderr

    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "6")
            self.end_headers()
            self.wfile.write(b"<html>")

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Other) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        done = orchard(rest, "ps", url=f"http://127.0.0.1:{other.server_port}")
        other.shutdown()
    assert done.returncode == 1 and "is no `orchard env serve`" in done.stderr


def test_the_doctor_says_what_is_proven(rest: Rest) -> None:
    done = orchard(rest, "doctor", "--json")
    findings = {item["what"]: item for item in json.loads(done.stdout)}
    assert findings["bwrap (env.isolation=bwrap)"]["state"] == "proven"
    assert done.returncode == 0
    assert all(item["hint"] for item in findings.values() if item["state"] in ("missing", "failed"))
    assert max(map(len, orchard(rest, "doctor").stdout.splitlines())) <= 120


def test_a_domain_runs_unchanged_against_a_server(rest: Rest, tmp_path: Path) -> None:
    words = ["swe", "distill", "env=remote", f"env.url={rest.url}", "run=r", f"out={tmp_path}", "--json"]
    more = ["tasks.train=2", "distill.limit=2", "teacher.error_rate=0"]
    environment = {**os.environ, "ORCHARD_ENV_API_KEY": rest.key}
    argv = [sys.executable, "-m", "orchard_cli", *words, *more]
    done = subprocess.run(argv, capture_output=True, text=True, env=environment, timeout=200)
    assert done.returncode == 0, done.stderr
    show = [sys.executable, "-m", "orchard_cli", "traj", "stats", str(tmp_path / "swe" / "r"), "--json"]
    stats = json.loads(subprocess.run(show, capture_output=True, text=True, check=True).stdout)
    assert stats[0]["outcomes"] == {"solved": 2}
    assert stats[0]["faults"] == {}
    assert rest("GET", "/v1/sandboxes").json["items"] == []
