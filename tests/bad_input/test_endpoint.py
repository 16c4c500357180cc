"""A teacher behind a real server on this machine that plays each fault, seen from the whole command."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.endpoint import Endpoint, completion

from orchard_cli.trajectory.reading import read
from orchard_cli.trajectory.verify import verify

from .cli import Ended, orchard, refused

KEY = "sk-never-to-be-seen-93421"
BREAKER = "mend the cause, or allow more with distill.max_infra_rate; the same command goes on from here"


@pytest.fixture
def server() -> Iterator[Endpoint]:
    server = Endpoint((200, completion("nothing")))
    yield server
    server.close()


def distill(url: str, cwd: Path, *more: str) -> Ended:
    words = ["teacher=openai", "teacher.model=m1", f"teacher.base_url={url}", "teacher.retries=1", *more]
    words += ["distill.attempts=7", "env.concurrency=4", "teacher.api_key_env=MY_KEY", "harness.format=fence"]
    return orchard("echo", "distill", *words, cwd=cwd, MY_KEY=KEY)


def kept(cwd: Path) -> Path:
    return cwd / "runs" / "echo" / "demo" / "distill" / "trajectories.jsonl.zst"


def nowhere(cwd: Path, ended: Ended) -> None:
    """The key is in nothing that was printed or stored."""
    assert KEY not in ended.out + ended.err
    stored = [p.read_bytes() for p in (cwd / "runs").rglob("*") if p.is_file() and not p.name.endswith(".zst")]
    assert not any(KEY.encode() in data for data in [*stored, kept(cwd).read_bytes()])
    for t in read(kept(cwd)):
        assert KEY not in repr(t)


def test_a_refused_key_stops_the_run_at_once_and_is_never_shown(tmp_path: Path, server: Endpoint) -> None:
    said = f"bad key {KEY} \x1b]0;title\x07 [red]not red[/red]"
    server.answers = [(401, {"error": {"message": said}})]
    ended = distill(server.url, tmp_path)
    error = f"policy: {server.url} refused the key in MY_KEY (401): bad key *** \\x1b]0;title\\x07 [red]not red[/red]"
    refused(ended, 1, error, "no further attempt can succeed; mend this first")
    assert len(server.asked) <= 8  # those that were under way, not all 21
    nowhere(tmp_path, ended)
    server.answers = [(200, completion("nothing"))]
    ended = distill(server.url, tmp_path)
    assert ended.code == 0, ended.err
    nowhere(tmp_path, ended)


@pytest.mark.parametrize(
    ("status", "answer", "last"),
    [
        (429, {"error": {"message": "slow down"}}, "answered 429, also after 1 retries: slow down"),
        (200, {"x": 1}, 'sent what is not a chat completion: {"x": 1}'),
    ],
    ids=["busy", "malformed"],
)
def test_an_outage_stops_the_run_and_the_same_command_goes_on_when_it_is_over(
    tmp_path: Path, server: Endpoint, status: int, answer: Any, last: str
) -> None:
    server.answers = [(status, answer)]
    ended = distill(server.url, tmp_path)
    error = f"20 of 20 attempts ended in infrastructure or verifier errors, the last one: {server.url} {last}"
    refused(ended, 1, error, BREAKER)
    bad = list(read(kept(tmp_path)))
    assert {t.outcome.value for t in bad} == {"infra_error"} and {t.reward for t in bad} == {None}
    server.answers = [(200, completion("nothing"))]
    ended = distill(server.url, tmp_path)
    assert ended.code == 0, ended.err
    assert sum(t.outcome.counts for t in read(kept(tmp_path))) == 21
    assert verify(kept(tmp_path)).ok


def test_an_endpoint_that_is_down_is_named(tmp_path: Path, server: Endpoint) -> None:
    server.http.server_close()
    ended = distill(server.url, tmp_path, "teacher.timeout_s=5")
    last = f"cannot reach {server.url}: [Errno 111] Connection refused"
    error = f"20 of 20 attempts ended in infrastructure or verifier errors, the last one: {last}"
    refused(ended, 1, error, BREAKER)


def test_a_conversation_that_is_too_long_counts_as_the_models_own_doing(tmp_path: Path, server: Endpoint) -> None:
    server.answers = [(400, {"error": {"message": "maximum context length is 10 tokens"}})]
    ended = distill(server.url, tmp_path)
    assert ended.code == 0, ended.err
    assert ended.out.startswith("distill: 3 tasks · 21 trajectories · 21 truncated\n")


def test_a_missing_key_is_named_before_anything_runs(tmp_path: Path) -> None:
    words = ["teacher=openai", "teacher.model=m1", "teacher.base_url=https://host.invalid/v1"]
    ended = orchard("echo", "distill", *words, "teacher.api_key_env=NO_SUCH_KEY", cwd=tmp_path)
    error = "no key for the teacher: the environment variable NO_SUCH_KEY is not set"
    refused(ended, 2, error, "export NO_SUCH_KEY=… or name another variable with teacher.api_key_env")


def test_a_handful_of_attempts_that_all_failed_is_no_success(tmp_path: Path, server: Endpoint) -> None:
    server.answers = [(500, {"error": {"message": "down"}})]
    words = ["teacher=openai", "teacher.model=m1", f"teacher.base_url={server.url}", "teacher.retries=0"]
    words += ["teacher.api_key_env=MY_KEY", "distill.attempts=1"]
    ended = orchard("echo", "distill", *words, cwd=tmp_path, MY_KEY=KEY)
    assert ended.code == 1 and "none of 9 attempts says anything about the policy, the last one: " in ended.err
    server.answers = [(200, completion("nothing"))]
    assert orchard("echo", "distill", *words, cwd=tmp_path, MY_KEY=KEY).code == 0
