"""Estimators with intervals. Every number says how it was estimated, from how much, and what is missing.

The unit of resampling is the task: attempts at one task are not independent of each other.
"""

from collections.abc import Iterable, Sequence
from math import comb

import msgspec
import numpy as np

from ..outcome import Outcome, wilson
from ..trajectory import Trajectory
from ..trajectory.types import Record


class Counts(Record, frozen=True):
    """One task: `n` attempts that count, `solved` of them; `lost` attempts that could not be measured."""

    task: str
    family: str = ""
    solved: int = 0
    n: int = 0
    lost: int = 0


class Estimate(Record, frozen=True):
    """A number in [0, 1] with its interval. `value` is None if it was not measured well enough: see `refused`."""

    name: str  # pass@1, pass@4, pass^4
    value: float | None
    low: float = 0.0
    high: float = 1.0
    confidence: float = 0.95
    interval: str = ""  # wilson | task bootstrap
    tasks: int = 0  # that the number is made from
    attempts: int = 0
    unmeasured: int = 0  # attempts lost to infrastructure, verifier or cancelling
    short: int = 0  # tasks left out because fewer than k of their attempts count
    refused: str = ""


class Difference(Record, frozen=True):
    """b − a on the tasks that both tried, paired. p: exact two-sided sign test over tasks that differ."""

    a: str
    b: str
    value: float | None
    low: float = -1.0
    high: float = 1.0
    confidence: float = 0.95
    interval: str = "paired task bootstrap"
    better: int = 0  # tasks on which b did better
    worse: int = 0
    equal: int = 0
    p: float = 1.0
    unpaired: int = 0  # tasks that only one of them has
    refused: str = ""


def count(trajectories: Iterable[Trajectory]) -> list[Counts]:
    """Sum up attempts by task, in order of task id."""
    found: dict[str, list[Trajectory]] = {}
    for t in trajectories:
        found.setdefault(t.task_id, []).append(t)
    return [
        Counts(
            task,
            group[0].family,
            sum(t.outcome is Outcome.SOLVED for t in group),
            sum(t.outcome.counts for t in group),
            sum(not t.outcome.counts for t in group),
        )
        for task, group in sorted(found.items())
    ]


def pass_at_k(solved: int, n: int, k: int) -> float:
    """Probability that at least one of k attempts is solved, unbiased (2107.03374). Needs n ≥ k."""
    return 1.0 - comb(n - solved, k) / comb(n, k)


def pass_hat_k(solved: int, n: int, k: int) -> float:
    """Probability that all of k attempts are solved, unbiased (2406.12045). Needs n ≥ k."""
    return comb(solved, k) / comb(n, k)


def plug_in_pass_at_k(solved: int, n: int, k: int) -> float:
    """The same from the task's observed rate, 1 − (1 − c/n)^k: biased downwards, defined for any k."""
    return 1.0 - (1.0 - solved / n) ** k


def plug_in_pass_hat_k(solved: int, n: int, k: int) -> float:
    """The same from the task's observed rate, (c/n)^k: biased upwards, defined for any k (claw-eval's choice)."""
    return (solved / n) ** k


# (all of k attempts?, estimator) → rule
RULES = {
    (False, "unbiased"): pass_at_k,
    (True, "unbiased"): pass_hat_k,
    (False, "plug-in"): plug_in_pass_at_k,
    (True, "plug-in"): plug_in_pass_hat_k,
}


def estimate(
    tasks: Sequence[Counts],
    *,
    k: int = 1,
    every: bool = False,
    estimator: str = "unbiased",
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    max_lost: float = 0.2,
    missing: int = 0,
) -> Estimate:
    """pass@k, or pass^k if `every`, as the mean over tasks. `missing`: attempts that were planned and have no record.

    estimator: `unbiased`, from the subsets of k attempts (C(c,k)/C(n,k)), or `plug-in`, from a task's rate ((c/n)^k),
    which the name then says: `pass^3 (plug-in)`. At n = k they differ wherever a task was solved sometimes.

    Interval: Wilson where each task has one attempt, else percentile bootstrap over tasks; where all tasks agree
    a bootstrap has no width, so Wilson over tasks is used there too. Refused when more than `max_lost` of the
    attempts could not be measured.
    """
    name = f"pass{'^' if every else '@'}{k}{'' if estimator == 'unbiased' else f' ({estimator})'}"
    usable = [t for t in tasks if t.n >= k]
    attempts, lost = sum(t.n for t in tasks), sum(t.lost for t in tasks) + missing
    base = Estimate(
        name,
        None,
        confidence=confidence,
        tasks=len(usable),
        attempts=attempts,
        unmeasured=lost,
        short=len(tasks) - len(usable),
        refused=_refusal(attempts, lost, max_lost) or ("" if usable else f"no task has {k} attempts that count"),
    )
    if base.refused:
        return base
    rule = RULES[every, estimator]
    values = np.array([rule(t.solved, t.n, k) for t in usable])
    low, high, how = _interval(values, all(t.n == 1 for t in usable), confidence, resamples, seed)
    return msgspec.structs.replace(base, value=float(values.mean()), low=low, high=high, interval=how)


def compare(
    a: tuple[str, Sequence[Counts]],
    b: tuple[str, Sequence[Counts]],
    *,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    max_lost: float = 0.2,
    missing: tuple[int, int] = (0, 0),
) -> Difference:
    """The difference of two policies' pass@1 on the same tasks; each is (name, counts)."""
    first, second = ({t.task: t for t in counts if t.n} for _, counts in (a, b))
    both = sorted(first.keys() & second.keys())
    unpaired = len(first.keys() ^ second.keys())
    refused = "" if both else "no task was tried by both"
    for (_, counts), lost in zip((a, b), missing, strict=True):
        gone = sum(t.lost for t in counts) + lost
        refused = refused or _refusal(sum(t.n for t in counts), gone, max_lost)
    if refused:
        return Difference(a[0], b[0], None, confidence=confidence, unpaired=unpaired, refused=refused)
    values = np.array([second[t].solved / second[t].n - first[t].solved / first[t].n for t in both])
    better, worse = int((values > 0).sum()), int((values < 0).sum())
    if np.ptp(values) > 0:
        low, high = _bootstrap(values, confidence, resamples, seed)
    else:  # no width to resample: at most so many tasks may differ from what all of these show
        slack = wilson(0, len(both), confidence)[1]
        low, high = max(-1.0, values[0] - slack), min(1.0, values[0] + slack)
    return Difference(
        a[0],
        b[0],
        float(values.mean()),
        float(low),
        float(high),
        confidence,
        better=better,
        worse=worse,
        equal=len(both) - better - worse,
        p=sign_test(better, worse),
        unpaired=unpaired,
    )


def sign_test(better: int, worse: int) -> float:
    """Exact two-sided p-value of `better` against `worse` under a fair coin; McNemar's exact test for one attempt."""
    n = better + worse
    tail = sum(comb(n, i) for i in range(min(better, worse) + 1))
    return min(1.0, 2 * tail / 2**n)


def _refusal(attempts: int, lost: int, max_lost: float) -> str:
    """Fail closed: too much missing makes any number a guess."""
    share = lost / (attempts + lost) if attempts + lost else 1.0
    if attempts and share <= max_lost:
        return ""
    return f"{lost} of {attempts + lost} attempts could not be measured ({share:.0%}, at most {max_lost:.0%})"


def _interval(
    values: np.ndarray, single: bool, confidence: float, resamples: int, seed: int
) -> tuple[float, float, str]:
    if single or (np.ptp(values) == 0 and values[0] in (0.0, 1.0)):
        return *wilson(round(values.sum()), len(values), confidence), "wilson"
    return *_bootstrap(values, confidence, resamples, seed), "task bootstrap"


def _bootstrap(values: np.ndarray, confidence: float, resamples: int, seed: int) -> tuple[float, float]:
    """Percentile bootstrap of the mean of values_T, resampling tasks."""
    rng, n = np.random.default_rng(seed), len(values)
    at_once = max(1, 4_000_000 // n)  # a bounded table of draws
    means = np.concatenate(
        [
            values[rng.integers(0, n, size=(min(at_once, resamples - done), n))].mean(axis=1)
            for done in range(0, resamples, at_once)
        ]
    )
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)
