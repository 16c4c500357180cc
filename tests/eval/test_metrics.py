from itertools import combinations

import numpy as np
import pytest

from orchard_cli.eval.metrics import Counts, compare, count, estimate, pass_at_k, pass_hat_k, sign_test
from orchard_cli.outcome import Outcome, wilson
from orchard_cli.trajectory import Trajectory


def tasks(*solved_n):
    return [Counts(f"{i:03}", solved=c, n=n) for i, (c, n) in enumerate(solved_n)]


def test_pass_at_k_and_pass_hat_k_are_the_shares_of_all_subsets():
    for n in range(1, 6):
        for solved in range(n + 1):
            for k in range(1, n + 1):
                subsets = list(combinations([1] * solved + [0] * (n - solved), k))
                assert pass_at_k(solved, n, k) == pytest.approx(sum(map(any, subsets)) / len(subsets))
                assert pass_hat_k(solved, n, k) == pytest.approx(sum(map(all, subsets)) / len(subsets))


def test_the_plug_in_estimators_take_the_observed_rate_to_the_power_and_say_so_in_their_name():
    some = tasks((2, 4), (4, 4), (0, 4))
    got = estimate(some, k=3, every=True, estimator="plug-in")
    assert got.name == "pass^3 (plug-in)" and got.value == pytest.approx((0.5**3 + 1 + 0) / 3)
    assert estimate(some, k=3, every=True).value == pytest.approx(1 / 3)
    got = estimate(some, k=3, estimator="plug-in")
    assert got.name == "pass@3 (plug-in)" and got.value == pytest.approx((1 - 0.5**3 + 1 + 0) / 3)


@pytest.mark.parametrize("solved", [0, 3])
def test_at_n_equal_k_both_estimators_agree_only_where_all_or_none_are_solved(solved):
    for every in (False, True):
        both = [estimate(tasks((solved, 3)), k=3, every=every, estimator=e).value for e in ("unbiased", "plug-in")]
        assert both[0] == both[1]
    assert estimate(tasks((2, 3)), k=3, every=True).value == 0
    assert estimate(tasks((2, 3)), k=3, every=True, estimator="plug-in").value == pytest.approx(8 / 27)


def test_one_attempt_a_task_gives_the_wilson_interval():
    got = estimate(tasks(*[(1, 1)] * 7, *[(0, 1)] * 25))
    assert (got.value, got.interval) == (7 / 32, "wilson")
    assert (round(got.low, 2), round(got.high, 2)) == (0.11, 0.39)


def test_several_attempts_give_a_bootstrap_over_tasks_wider_than_one_over_attempts():
    clustered = tasks(*[(4, 4)] * 10, *[(0, 4)] * 10)
    got = estimate(clustered)
    low, high = wilson(40, 80)
    assert got.interval == "task bootstrap" and got.attempts == 80 and got.tasks == 20
    assert got.high - got.low > 1.5 * (high - low)
    assert got == estimate(clustered) and got != estimate(clustered, seed=1)


def test_where_all_tasks_agree_the_interval_still_has_width():
    got = estimate(tasks(*[(0, 4)] * 20))
    assert got.value == 0 and got.low == 0 and got.high > 0.1 and got.interval == "wilson"


def test_tasks_with_fewer_than_k_attempts_that_count_are_left_out_and_counted():
    got = estimate(tasks((1, 4), (2, 2), (0, 4)), k=4)
    assert (got.name, got.tasks, got.short, got.value) == ("pass@4", 2, 1, 0.5)
    assert estimate(tasks((3, 4)), k=2, every=True).value == 0.5
    assert "no task has 4 attempts" in estimate(tasks((1, 1)), k=4).refused


def test_a_number_is_refused_when_too_much_could_not_be_measured():
    lost = [Counts("a", solved=1, n=7, lost=2), Counts("b", solved=0, n=1)]
    assert estimate(lost, max_lost=0.2).value is not None
    got = estimate(lost, max_lost=0.2, missing=1)
    assert got.value is None and got.refused == "3 of 11 attempts could not be measured (27%, at most 20%)"
    assert estimate([]).value is None


@pytest.mark.parametrize("n_tasks", [40, 150])
def test_intervals_cover_the_truth_as_often_as_they_say(n_tasks):
    rng, hits, runs = np.random.default_rng(5), {"one": 0, "four": 0}, 300
    for _ in range(runs):
        p = rng.beta(0.6, 0.9, size=n_tasks)  # many easy, many hopeless
        for name, n in (("one", 1), ("four", 4)):
            got = estimate(tasks(*((int(c), n) for c in rng.binomial(n, p))), resamples=400)
            hits[name] += got.low <= 0.4 <= got.high
    assert all(0.90 <= h / runs <= 0.99 for h in hits.values()), hits


def test_a_paired_comparison_sees_what_separate_intervals_hide():
    rng = np.random.default_rng(0)
    first = [(int(c), 4) for c in rng.binomial(4, rng.beta(0.5, 0.5, size=60))]
    second = [(min(4, c + (i % 3 == 0)), 4) for i, (c, _) in enumerate(first)]
    a, b = tasks(*first), tasks(*second)
    assert estimate(a).high > estimate(b).low
    got = compare(("sft", a), ("rl", b))
    assert got.low > 0 and got.worse == 0 and got.p < 0.01 and got.better + got.equal == 60


def test_paired_intervals_cover_the_truth_as_often_as_they_say():
    rng, hits, runs = np.random.default_rng(7), 0, 300
    for _ in range(runs):
        p = rng.beta(1, 1, size=80) * 0.8
        a, b = (tasks(*((int(c), 2) for c in rng.binomial(2, q))) for q in (p, p + 0.1))
        got = compare(("a", a), ("b", b), resamples=400)
        hits += got.low <= 0.1 <= got.high
    assert 0.90 <= hits / runs <= 0.99


def test_only_common_tasks_are_compared_and_the_rest_is_counted():
    a, b = tasks((1, 1), (0, 1)), [*tasks((1, 1)), Counts("z", solved=1, n=1)]
    got = compare(("a", a), ("b", b))
    assert (got.value, got.unpaired, got.equal) == (0.0, 2, 1) and got.low < 0 < got.high
    assert compare(("a", a), ("b", [Counts("y", n=1)])).refused == "no task was tried by both"
    assert "could not be measured" in compare(("a", a), ("b", [Counts("000", n=1, lost=9)])).refused


def test_the_sign_test_is_exact():
    assert sign_test(0, 0) == 1.0 and sign_test(3, 3) == 1.0
    assert sign_test(5, 0) == pytest.approx(2 / 32) == sign_test(0, 5)
    assert sign_test(8, 2) == pytest.approx(2 * (1 + 10 + 45) / 1024)


def test_counting_keeps_faults_apart_from_failures():
    def one(task, outcome):
        return Trajectory(task + outcome, task, "d", "p", "h", (), (), outcome, "", family="f")

    every = [one("t", o) for o in Outcome] + [one("a", Outcome.SOLVED)]
    assert count(every) == [Counts("a", "f", 1, 1, 0), Counts("t", "f", 1, 4, 3)]
