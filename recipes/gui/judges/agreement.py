"""How far a judge can be trusted: its verdicts against the world's own (`state`), with intervals.

A judge that says yes too easily is what a policy learns to exploit, so the share of failures that it lets pass is shown
beside accuracy and F1.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from orchard_cli.errors import GradeError
from orchard_cli.outcome import wilson

from .evidence import Evidence
from .verdict import Judge


class Pair(NamedTuple):
    """One attempt. judge: None if it gave no verdict."""

    task: str
    state: bool
    judge: bool | None


class Share(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A number in [0, 1] with its 95 % interval; None where there is nothing to count."""

    value: float | None
    low: float = 0.0
    high: float = 1.0


class Agreement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Positive: taken for done. `lost`: attempts without a verdict, in none of the other numbers."""

    judge: str
    true_positive: int
    false_positive: int
    false_negative: int
    true_negative: int
    lost: int
    tasks: int
    accuracy: Share
    f1: Share
    precision: Share
    recall: Share
    let_pass: Share  # of the failures, the share that the judge takes for done
    kappa: Share  # agreement beyond chance (Cohen), value in [-1, 1]

    @property
    def n(self) -> int:
        return self.true_positive + self.false_positive + self.false_negative + self.true_negative


def pairs(judge: Judge, attempts: Iterable[tuple[str, Evidence, bool]]) -> Iterator[Pair]:
    """Ask the judge about attempts, each (task id, evidence, whether the world says that it was done). Where it gives
    no verdict the pair says so.
    """
    for task, seen, state in attempts:
        try:
            yield Pair(task, state, judge.judge(seen).success)
        except GradeError:
            yield Pair(task, state, None)


def agreement(judge: str, pairs: Iterable[Pair], *, resamples: int = 2000, seed: int = 0) -> Agreement:
    """Intervals: Wilson for shares if each task has one attempt; else, and for F1 and kappa, a bootstrap over tasks."""
    found, lost = defaultdict[str, list[Pair]](list), 0
    for pair in pairs:
        lost += pair.judge is None
        if pair.judge is not None:
            found[pair.task].append(pair)
    counts_T4 = np.array([_counts(group) for group in found.values()], dtype=float).reshape(-1, 4)
    total = counts_T4.sum(0)
    tp, fp, fn, tn = (int(c) for c in total)
    drawn_R4 = _resampled(counts_T4, resamples, seed)
    once = bool(len(counts_T4)) and bool((counts_T4.sum(1) == 1).all())
    shares = {
        "accuracy": (tp + tn, tp + fp + fn + tn),
        "precision": (tp, tp + fp),
        "recall": (tp, tp + fn),
        "let_pass": (fp, fp + tn),
    }
    made = {k: _wilson(*v) if once or not v[1] else _boot(_RULES[k], total, drawn_R4) for k, v in shares.items()}
    made |= {k: _boot(_RULES[k], total, drawn_R4) for k in ("f1", "kappa")}
    return Agreement(judge, tp, fp, fn, tn, lost, len(found), **made)


COLUMNS = ("judge", "attempts", "no verdict", "accuracy", "F1", "lets failures pass", "kappa", "TP / FP / FN / TN")


def cells(a: Agreement) -> list[str]:
    """One judge's row, values in percent."""
    shares = (_show(a.accuracy), _show(a.f1), _show(a.let_pass), _show(a.kappa))
    counts = f"{a.true_positive} / {a.false_positive} / {a.false_negative} / {a.true_negative}"
    return [a.judge, str(a.n), str(a.lost), *shares, counts]


def table(rows: Sequence[Agreement]) -> str:
    """A Markdown table, one judge a row, values in percent."""
    lines = [COLUMNS, ["---"] * len(COLUMNS), *map(cells, rows)]
    return "\n".join("| " + " | ".join(c.replace("|", "\\|") for c in line) + " |" for line in lines)


def _counts(group: Sequence[Pair]) -> list[int]:
    cells = [(True, True), (False, True), (True, False), (False, False)]  # state, judge: TP FP FN TN
    return [sum((p.state, p.judge) == cell for p in group) for cell in cells]


def _resampled(counts_T4: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    if not len(counts_T4):
        return np.zeros((0, 4))
    weights_RT = np.random.default_rng(seed).multinomial(
        len(counts_T4), np.full(len(counts_T4), 1 / len(counts_T4)), size=resamples
    )
    return weights_RT @ counts_T4


def _wilson(hits: int, n: int) -> Share:
    return Share(hits / n, *wilson(hits, n)) if n else Share(None)


def _boot(rule: "_Rule | _Kappa", total: np.ndarray, drawn_R4: np.ndarray) -> Share:
    value = rule(total[None])[0]
    if not np.isfinite(value):
        return Share(None)
    values = rule(drawn_R4)
    low, high = np.percentile(values[np.isfinite(values)], [2.5, 97.5])
    return Share(float(value), float(min(low, value)), float(max(high, value)))


class _Rule:
    """A quotient of counts (N, 4), not a number where its denominator is 0."""

    def __init__(self, top: Sequence[float], below: Sequence[float]):
        self.top, self.below = np.array(top), np.array(below)

    def __call__(self, counts_N4: np.ndarray) -> np.ndarray:
        below = counts_N4 @ self.below
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(below > 0, (counts_N4 @ self.top) / below, np.nan)


class _Kappa:
    def __call__(self, counts_N4: np.ndarray) -> np.ndarray:
        tp, fp, fn, tn = counts_N4.T
        n = counts_N4.sum(1)
        with np.errstate(divide="ignore", invalid="ignore"):
            chance = ((tp + fp) * (tp + fn) + (fn + tn) * (fp + tn)) / n**2
            return np.where(chance < 1, ((tp + tn) / n - chance) / (1 - chance), np.nan)


_RULES = {
    "accuracy": _Rule([1, 0, 0, 1], [1, 1, 1, 1]),
    "precision": _Rule([1, 0, 0, 0], [1, 1, 0, 0]),
    "recall": _Rule([1, 0, 0, 0], [1, 0, 1, 0]),
    "let_pass": _Rule([0, 1, 0, 0], [0, 1, 0, 1]),
    "f1": _Rule([2, 0, 0, 0], [2, 1, 1, 0]),
    "kappa": _Kappa(),
}


def _show(share: Share) -> str:
    if share.value is None:
        return "–"
    return f"{100 * share.value:.1f} [{100 * share.low:.1f}, {100 * share.high:.1f}]"
