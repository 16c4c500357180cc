"""The recipe's pieces: what is learned from, whose fault a lost attempt was, how many turns there are."""

import pytest
from orchard_cli.recipes.gui.recipe import (
    CAUSES,
    SITE_FAULTS,
    cap_per_site,
    fault_report,
    fault_table,
    shortest_success,
    turn_limit,
)

from orchard_cli.errors import Fault
from orchard_cli.outcome import Outcome
from orchard_cli.trajectory import Message, Step, Trajectory, Usage


def attempt(
    id: str, task: str, steps: int, outcome: Outcome = Outcome.SOLVED, tokens: int = 0, why: str = ""
) -> Trajectory:
    fault = Fault("harness", why, f"the page said {why}", "infra") if why else None
    return Trajectory(
        id=id,
        task_id=task,
        domain="gui",
        policy="p",
        harness="react",
        messages=(Message("user", "x"), Message("assistant", "y")),
        steps=(Step(1, "wait()"),) * steps,
        outcome=outcome,
        stop="submitted",
        usage=Usage(completion_tokens=tokens),
        fault=fault,
    )


def site(t: Trajectory) -> str:
    return t.task_id.split("--")[0]


def test_the_shortest_success_of_each_task_is_kept() -> None:
    found = [
        attempt("1", "a--0", 5),
        attempt("2", "a--0", 3, tokens=9),
        attempt("3", "a--0", 3, tokens=5),
        attempt("4", "a--0", 1, Outcome.UNSOLVED),
        attempt("5", "b--0", 2, Outcome.TRUNCATED),
        attempt("6", "c--0", 9),
    ]
    assert [t.id for t in shortest_success(found)] == ["3", "6"]


def test_a_site_gives_at_most_its_cap_and_the_shortest_first() -> None:
    found = [attempt(str(n), f"a--{n}", 9 - n) for n in range(5)] + [attempt("b", "b--0", 30)]
    assert [t.id for t in cap_per_site(found, site, most=2)] == ["3", "4", "b"]
    assert cap_per_site(found, site) == found


def test_every_fault_that_a_site_can_have_has_a_cause() -> None:
    from orchard_cli.recipes.gui.faults import SITE

    assert {f"site.{code}" for code in SITE} == set(SITE_FAULTS)
    assert {SITE_FAULTS[f"site.{code}"] for code in ("captcha", "blocked", "site_down")} == set(CAUSES) - {"other"}


def test_faults_are_reported_by_site_and_cause_and_judges_are_not_blamed_on_sites() -> None:
    lost = Outcome.INFRA_ERROR
    found = [
        *(attempt(f"a{n}", "a--0", 1) for n in range(3)),
        attempt("a3", "a--0", 1, lost, why="site.captcha"),
        attempt("b0", "b--0", 1, lost, why="site.navigation_timeout"),
        attempt("b1", "b--0", 1, lost, why="browser.crashed"),
        attempt("c0", "c|x--0", 1, Outcome.VERIFIER_ERROR, why="judge.http.500"),
    ]
    rows = fault_report(found, site)
    assert [(r.site, r.attempts, r.solved, r.lost) for r in rows] == [("b", 2, 0, 2), ("a", 4, 3, 1), ("c|x", 1, 0, 0)]
    assert rows[0].faults == {"navigation": 1, "other": 1} and rows[1].faults == {"captcha": 1}
    assert "| b | 2 | 0 | 0 | 0 | 1 | 1 | 100.0 % |" in fault_table(rows) and "c\\|x" in fault_table(rows)


def test_turns_rise_with_the_updates() -> None:
    assert [turn_limit(n) for n in (0, 89, 90, 500)] == [15, 15, 30, 30]
    assert [turn_limit(n, ((0, 5), (2, 8), (3, 9))) for n in range(4)] == [5, 5, 8, 9]
    for wrong in ((), ((1, 5),), ((0, 5), (0, 6))):
        with pytest.raises(ValueError, match="curriculum"):
            turn_limit(0, wrong)
