"""Whose fault a lost attempt was, by site."""

from orchard_cli.recipes.gui.recipe import CAUSES, COLUMNS, SITE_FAULTS, cells, fault_report

from orchard_cli.errors import Fault
from orchard_cli.outcome import Outcome
from orchard_cli.trajectory import Message, Step, Trajectory


def attempt(id: str, task: str, steps: int, outcome: Outcome = Outcome.SOLVED, why: str = "") -> Trajectory:
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
        fault=fault,
    )


def site(t: Trajectory) -> str:
    return t.task_id.split("--")[0]


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
    assert dict(zip(COLUMNS, cells(rows[1]), strict=True)) == {
        "site": "a",
        "attempts": "4",
        "solved": "3",
        "captcha": "1",
        "block": "0",
        "navigation": "0",
        "other": "0",
        "lost": "25.0 %",
    }
