"""Tasks of a benchmark's file: at pages that are served on this machine, with a model that acts and one that judges."""

import json
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trustme
from orchard_cli.recipes.gui import Config, Domain

from orchard_cli import schema
from orchard_cli.env.local.local import LocalEnv
from orchard_cli.errors import ConfigError, DataError, GradeError, RunError
from orchard_cli.harness.calls import CALLS
from orchard_cli.launch.local import look
from orchard_cli.outcome import Outcome
from orchard_cli.policy.policy import Sampling
from orchard_cli.policy.scripted import ScriptedPolicy
from orchard_cli.rollout import Job, attempt
from orchard_cli.trajectory import Blobs, ToolCall
from orchard_cli.trajectory.reading import read

from .judges.conftest import Endpoint

REACT = schema.Harness(kind="react", format="calls", max_steps=6, max_tokens=64)
PAGES = {
    "/": "<title>Mugs</title><h1>Mugs</h1><a href='/blue'>Blue mug</a>",
    "/blue": "<title>Blue mug</title><p>It costs $12.50.</p>",
    "/robots": "<title>Just a moment...</title><p>Verify you are human</p>",
}


class Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = PAGES.get(self.path, "").encode()
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


def address() -> str:
    """Of this machine, as others see it; loopback if it has no other."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("198.51.100.1", 9))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def serving(tls: ssl.SSLContext | None = None) -> Iterator[int]:
    http = ThreadingHTTPServer(("0.0.0.0", 0), Pages)  # noqa: S104 - a sandbox comes from elsewhere
    if tls:
        http.socket = tls.wrap_socket(http.socket, server_side=True)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield http.server_address[1]
    http.shutdown()
    http.server_close()
    thread.join()


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    yield from serving()


@pytest.fixture
def secure() -> Iterator[int]:
    """The same pages by TLS, with a certificate of an authority that no browser knows."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert(address()).configure_cert(tls)
    yield from serving(tls)


@pytest.fixture
def model() -> Iterator[Endpoint]:
    made = Endpoint()
    yield made
    made.close()


def row(id: str, web: str, text: str = "What does the blue mug cost?") -> dict[str, str]:
    return {"web_name": id.split("--")[0], "id": id, "ques": text, "web": web}


def written(path: Path, *rows: Any) -> Path:
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in rows))
    return path


def domain(path: Path, kind: str = "webvoyager", train: int = 0, **settings: Any) -> Domain:
    return Domain(
        Config(**settings), schema.Tasks(kind=kind, path="" if path == Path() else str(path), train=train), REACT, 0
    )


def acting(*replies: list[ToolCall]) -> ScriptedPolicy:
    return ScriptedPolicy.replies("acting", [CALLS["calls"].encode(calls) for calls in replies])


def asks(endpoint: Endpoint, **more: Any) -> dict[str, Any]:
    return {"judge_model": "judge", "judge_base_url": endpoint.url, **more}


LOOK_AND_SAY = ["click(id=1)", 'done(response="$12.50")']


def test_a_benchmark_is_measured_on_pages_served_here(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    env: LocalEnv,
    port: int,
    model: Endpoint,
    endpoint: Endpoint,
) -> None:
    """Eval, then its results, faults and agreement; the site that shows a captcha is lost, not failed."""
    monkeypatch.chdir(tmp_path)
    file = written(
        tmp_path / "tasks.jsonl",
        row("Mugs--0", f"http://127.0.0.1:{port}/"),
        row("Robots--0", f"http://127.0.0.1:{port}/robots"),
        row("Bad--0", "javascript:alert(1)"),
    )
    model.answers, endpoint.answers = ["I look.\n" + LOOK_AND_SAY[0], *LOOK_AND_SAY[1:]], ["It says so. SUCCESS"]
    words = [
        "tasks=webvoyager",
        f"tasks.path={file}",
        "domain.judge_model=judge",
        f"domain.judge_base_url={endpoint.url}",
    ]
    teacher = ["teacher=openai", "teacher.model=m", f"teacher.base_url={model.url}", "eval.temperatures=[0.0]"]
    limits = ["env.network=host", "env.concurrency=1", "eval.attempts=1", "eval.k=1", "eval.max_infra_rate=1"]
    rest = [*teacher, *limits, "eval.policy=teacher", "distill.infra_retries=0"]
    command = [sys.executable, "-m", "orchard_cli", "gui", "eval", *words, *rest]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"{file}: 2 tasks are good, 1 rows are not" in done.stderr and f"{file}:3: `web`" in done.stderr
    run = tmp_path / "runs" / "gui" / "demo"
    found = {t.task_id: t for t in read(run / "eval" / "trajectories" / "teacher-t0.jsonl.zst")}
    assert set(found) == {"Mugs--0", "Robots--0"}
    solved, lost = found["Mugs--0"], found["Robots--0"]
    assert (solved.outcome, solved.grade["judge"]["judge"]) == (Outcome.SOLVED, "webvoyager"), solved.fault
    assert lost.outcome is Outcome.INFRA_ERROR and lost.fault and lost.fault.code == "site.captcha"
    asked = endpoint.texts(0)
    assert "It costs $12.50." in asked and "click(id=1)" in asked and "I look." not in asked
    assert look("gui", "results", [*words])
    folder = run / "results" / "teacher-t0" / "0" / "taskMugs--0"
    assert "ANSWER; [$12.50]" in (folder / "interact_messages.json").read_text()
    capsys.readouterr()
    assert look("gui", "faults", words, json=True)
    (seen,) = json.loads(capsys.readouterr().out)["sites"]
    assert seen == {"site": "127.0.0.1", "attempts": 2, "solved": 1, "faults": {"captcha": 1}}
    with pytest.raises(RunError, match="no verdict to compare"):
        look("gui", "agreement", words)


def test_an_allow_listed_site_is_reached_through_the_sandboxes_proxy(
    tmp_path: Path, env: LocalEnv, port: int, endpoint: Endpoint
) -> None:
    here = address()
    if here.startswith("127."):
        pytest.skip("this machine has no address but loopback")
    file = written(tmp_path / "t.jsonl", row("Mugs--0", f"http://{here}:{port}/"))
    made = domain(file, view="both", **asks(endpoint))
    made.blobs = Blobs(tmp_path / "blobs")
    (task,) = made.tasks("eval")
    policy = acting([ToolCall("c", "click", {"id": 1})], [ToolCall("c", "done", {"response": "$12.50"})])
    with LocalEnv(network="allowlist", allow=(f"{here}:{port}",)) as network:
        tried = attempt(Job(task, policy, Sampling(), "eval", 0), made, network)
    assert tried.outcome is Outcome.SOLVED, tried.fault
    assert any("It costs $12.50." in m.content for m in tried.messages)
    assert len(endpoint.pictures(0)) == 2 and "It costs" not in endpoint.texts(0)  # pictures, where there are any
    made.close()


def test_https_passes_the_proxy_and_certificates_are_checked_unless_told_otherwise(
    tmp_path: Path, env: LocalEnv, secure: int, endpoint: Endpoint
) -> None:
    here = address()
    if here.startswith("127."):
        pytest.skip("this machine has no address but loopback")
    file = written(tmp_path / "t.jsonl", row("Mugs--0", f"https://{here}:{secure}/"))
    with LocalEnv(network="allowlist", allow=(f"{here}:{secure}",)) as network:
        for trusting in (False, True):
            made = domain(file, any_certificate=trusting, **asks(endpoint))
            (task,) = made.tasks("eval")
            policy = acting([ToolCall("c", "click", {"id": 1})], [ToolCall("c", "done", {"response": "$12.50"})])
            tried = attempt(Job(task, policy, Sampling(), "eval", 0), made, network)
            made.close()
            if trusting:
                assert tried.outcome is Outcome.SOLVED, tried.fault
                assert any("It costs $12.50." in m.content for m in tried.messages)
            else:
                assert tried.outcome is Outcome.INFRA_ERROR and tried.fault
                assert tried.fault.code == "site.certificate" and "ERR_CERT" in tried.fault.message


def test_without_a_network_the_run_is_told_so_and_no_site_is_blamed(
    tmp_path: Path, env: LocalEnv, endpoint: Endpoint
) -> None:
    made = domain(written(tmp_path / "t.jsonl", row("Mugs--0", "https://mugs.example/")), **asks(endpoint))
    (task,) = made.tasks("eval")
    fault = attempt(Job(task, acting([]), Sampling(), "eval", 0), made, env).fault
    assert fault and (fault.code, fault.attributable, fault.retry) == ("no_network", "client", "never")
    assert "https://mugs.example/" in fault.message and "env.network=open" in fault.message


def test_a_silent_judge_is_a_verifier_error_and_no_answer_needs_no_judge(tmp_path: Path, endpoint: Endpoint) -> None:
    made = domain(written(tmp_path / "t.jsonl", row("Mugs--0", "https://mugs.example/")), **asks(endpoint))
    (task,) = made.tasks("eval")
    state = {"answer": "$12.50", "actions": LOOK_AND_SAY, "shots": [{"text": "Mugs"}]}
    endpoint.answers = ["who knows"]
    with pytest.raises(GradeError) as caught:
        made.judging.grade(task, state, None, lambda: made.world(task, "{}"))
    assert caught.value.fault.code == "judge.no_verdict"
    endpoint.answers = [401]
    with pytest.raises(GradeError) as caught:
        made.judging.grade(task, state, None, lambda: made.world(task, "{}"))
    assert (caught.value.fault.attributable, caught.value.fault.retry) == ("client", "never")  # stops the run
    for wrong in ({"actions": 5}, {"shots": [{"image": 3}]}, {"shots": [{"file": "/etc/passwd"}]}, {"answer": []}):
        with pytest.raises(GradeError):
            made.judging.grade(task, state | wrong, None, lambda: made.world(task, "{}"))
    endpoint.asked.clear()
    grade = made.judging.grade(task, {"answer": None}, None, lambda: made.world(task, "{}"))
    assert (grade.reward, grade.solved, endpoint.asked) == (0.0, False, [])


def test_each_benchmark_has_its_own_judge_and_none_has_a_state(tmp_path: Path) -> None:
    rows = written(tmp_path / "t.jsonl", row("Mugs--0", "https://mugs.example/"))
    assert domain(rows).judging.kind == "webvoyager"
    assert domain(rows, kind="mind2web").judging.kind == "webjudge"
    assert domain(rows, kind="deepshop", judge="agenttrek").judging.kind == "agenttrek"
    with pytest.raises(ConfigError, match="leave no state"):
        domain(rows, judge="state")
    (task,) = domain(rows).tasks("eval")
    with pytest.raises(ConfigError, match="domain.judge=webvoyager asks a model, and none is named"):
        domain(rows).harness(task)
    with pytest.raises(ConfigError) as caught:
        domain(rows, judge_model="x", judge_base_url="https://x.example/v1", judge_api_key_env="NOT_THERE").harness(
            task
        )
    assert "no key for the judge" in str(caught.value) and "domain.judge_api_key_env" in caught.value.hint


def test_a_file_is_named_where_it_is_wrong_and_what_is_left_out_is_counted(tmp_path: Path) -> None:
    late = row("Mugs--2", "https://mugs.example/", "Find the opening hours on March 3, 2024.")
    file = written(
        tmp_path / "t.jsonl",
        row("Mugs--0", "https://mugs.example/"),
        row("Mugs--1", "https://www.mugs.example/", "What does the blue mug cost ?"),
        late,
        row("Cups--0", "https://cups.example/"),
        "{broken",
    )
    notes = list(domain(file).notes)
    assert any(f"{file}:3: `ques`: Mugs--2 asks for March 3, 2024" in note for note in notes)
    assert [str(p).startswith(f"{file}:5: not JSON") for p in domain(file).problems] == [True]
    made = domain(file, alike=0.9, expired="drop", not_sites=["cups.example"])
    assert [t.id for t in made.tasks("eval")] == ["Mugs--0"] and not list(made.tasks("train"))
    assert f"{file}: 3 good tasks are left out: 1 alike, 1 expired, 1 site" in list(made.notes)
    train, held = ({t.id for t in domain(file, train=2, held_out=["Cups"]).tasks(s)} for s in ("train", "eval"))
    assert len(train) == 2 and len(held) == 2 and "Cups--0" in held and not train & held


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        ((), DataError, "has no usable task"),
        (("{broken",), DataError, "has no usable task"),
        (None, ConfigError, "needs a file"),
    ],
)
def test_a_file_without_tasks_is_an_error(tmp_path: Path, rows: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        list(domain(Path() if rows is None else written(tmp_path / "t.jsonl", *rows)).tasks("eval"))
