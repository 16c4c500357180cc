"""One attempt: whose fault ends up in which outcome, and which outcomes carry a reward."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from orchard_cli import schema
from orchard_cli.compose import compose
from orchard_cli.domain import Domain
from orchard_cli.domains import load
from orchard_cli.env import open_env
from orchard_cli.env.sandbox import Env
from orchard_cli.errors import GradeError, PolicyError, SandboxError
from orchard_cli.outcome import Outcome
from orchard_cli.policy.policy import Reply, Sampling
from orchard_cli.rollout import Job, attempt, derive_seed, draw, lost_cause, run_jobs


@pytest.fixture(scope="module")
def env() -> Iterator[Env]:
    opened = open_env(schema.Env(isolation="process"))
    yield opened
    opened.close()


@pytest.fixture
def domain(echo: Path) -> Domain:
    config = compose("echo", []).config
    built: Domain = load("echo").Domain(config.domain, config.tasks, config.harness, 0)
    return built


def job(domain: Domain, *, error_rate: float = 0.0) -> Job:
    task = next(domain.tasks("train"))
    return Job(task, domain.script(task, seed=0, error_rate=error_rate), Sampling(), "distill", 0)


def test_a_solved_and_an_unsolved_attempt(domain: Domain, env: Env) -> None:
    good, bad = (attempt(job(domain, error_rate=rate), domain, env) for rate in (0.0, 1.0))
    assert (good.outcome, good.reward, good.stop) == (Outcome.SOLVED, 1.0, "submitted")
    assert (bad.outcome, bad.reward) == (Outcome.UNSOLVED, 0.0)
    assert "+w0" in good.artifact and good.id == "distill/train-0/0"


class Failing:
    """A domain whose named method raises; everything else is the real one."""

    def __init__(self, inner: Domain, method: str, error: Exception):
        self._inner, self._method, self._error, self.calls = inner, method, error, 0

    def __getattr__(self, name: str) -> object:
        if name != self._method:
            return getattr(self._inner, name)

        def fail(*_: object, **__: object) -> None:
            self.calls += 1
            raise self._error

        return fail


@pytest.mark.parametrize(
    ("method", "error", "outcome", "code"),
    [
        ("spec", SandboxError("no image", code="client.no_image"), Outcome.INFRA_ERROR, "client.no_image"),
        ("prepare", OSError("disk"), Outcome.INFRA_ERROR, "unexpected"),
        ("export", RuntimeError("gone"), Outcome.INFRA_ERROR, "unexpected"),
        ("grade", GradeError("no tests ran", code="tests_missing"), Outcome.VERIFIER_ERROR, "tests_missing"),
        ("grade", ZeroDivisionError(), Outcome.VERIFIER_ERROR, "unexpected"),
    ],
)
def test_a_fault_is_an_outcome_without_a_reward(
    domain: Domain, env: Env, method: str, error: Exception, outcome: Outcome, code: str
) -> None:
    made = attempt(job(domain), Failing(domain, method, error), env)  # type: ignore[arg-type]
    assert (made.outcome, made.reward) == (outcome, None)
    assert made.fault and made.fault.code == code


def test_what_the_policy_did_to_its_own_sandbox_is_its_failure(domain: Domain, env: Env) -> None:
    error = SandboxError("killed its own init", code="sandbox.killed_by_workload", attributable="model")
    made = attempt(job(domain), Failing(domain, "export", error), env)  # type: ignore[arg-type]
    assert (made.outcome, made.reward) == (Outcome.UNSOLVED, 0.0)


class Broken:
    name = "broken"

    def __init__(self, error: Exception):
        self.error = error

    def reply(self, messages: object, **_: object) -> Reply:
        raise self.error

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("code", "outcome", "stop"),
    [("context_overflow", Outcome.TRUNCATED, "token_limit"), ("http.429", Outcome.INFRA_ERROR, "error")],
)
def test_policy_errors(domain: Domain, env: Env, code: str, outcome: Outcome, stop: str) -> None:
    made = attempt(replace(job(domain), policy=Broken(PolicyError("x", code=code))), domain, env)
    assert (made.outcome, made.stop) == (outcome, stop)


def test_faults_are_drawn_again_within_a_budget(domain: Domain, env: Env) -> None:
    failing = Failing(domain, "grade", GradeError("x", code="x"))
    made = draw(replace(job(domain), number=2), failing, env, redraws=2)  # type: ignore[arg-type]
    assert [t.attempt for t in made] == [6, 7, 8] and failing.calls == 3
    assert len({t.seed for t in made}) == 3


def test_a_lost_cause_is_not_drawn_again(domain: Domain, env: Env) -> None:
    error = PolicyError("key refused", code="http.unauthorized", attributable="client", retry="never")
    made = draw(replace(job(domain), policy=Broken(error)), domain, env, redraws=2)
    assert len(made) == 1 and lost_cause(made[0])


def test_an_attempt_over_its_time_is_excluded_where_the_harness_says_so_and_not_drawn_again(
    echo: Path, env: Env
) -> None:
    config = compose("echo", ["harness.max_time_s=0.000001", "harness.late=excluded"]).config
    late = load("echo").Domain(config.domain, config.tasks, config.harness, 0)
    made = draw(job(late), late, env, redraws=2)
    assert [(t.outcome, t.stop, t.reward) for t in made] == [(Outcome.CANCELLED, "over_time", None)]


def test_jobs_are_taken_lazily_and_may_wait_for_results() -> None:
    started: list[int] = []
    results: list[int] = []

    def jobs() -> Iterator[int | None]:
        yield 1
        while not results:
            yield None
        yield 2

    for _, result in run_jobs(jobs(), lambda n: started.append(n) or n, concurrency=2):  # type: ignore[func-returns-value]
        results.append(result)
    assert results == [1, 2]


def test_an_interrupted_caller_closes_what_runs() -> None:
    closed = threading.Event()

    def work(n: int) -> int:
        if n:
            assert closed.wait(10)
        return n

    found = run_jobs(range(5), work, concurrency=3, on_cancel=closed.set)
    with pytest.raises(KeyboardInterrupt):
        for _ in found:
            found.throw(KeyboardInterrupt)  # type: ignore[attr-defined]
    assert closed.is_set()


def test_seeds_depend_on_every_part() -> None:
    assert len({derive_seed(0, "a", 1), derive_seed(0, "a", 2), derive_seed(1, "a", 1), derive_seed(0, "b", 1)}) == 4
    assert derive_seed(0, "a", 1) == derive_seed(0, "a", 1)
