"""What eval leaves: one row block for each policy and temperature, and paired comparisons between policies."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .. import schema
from ..trajectory import Trajectory, Usage
from ..trajectory.types import Record
from .metrics import Counts, Difference, Estimate, compare, count, estimate


@dataclass(frozen=True)
class Cell:
    """Attempts of one policy at one temperature. `planned`: how many there should be, so that missing ones show."""

    policy: str
    temperature: float
    trajectories: Sequence[Trajectory]
    planned: int = 0
    harness: str = ""  # its name, where there are several

    @property
    def missing(self) -> int:
        return max(0, self.planned - len(self.trajectories))


class Row(Record, frozen=True):
    """One policy at one temperature."""

    policy: str
    temperature: float
    estimates: tuple[Estimate, ...]  # pass@1 first
    families: dict[str, Estimate]  # pass@1 by family
    outcomes: dict[str, int]
    usage: Usage
    steps_mean: float
    harness: str = ""

    @property
    def label(self) -> str:
        return f"{self.policy} with {self.harness}" if self.harness else self.policy


class Comparison(Record, frozen=True):
    temperature: float
    difference: Difference
    harness: str = ""

    @property
    def label(self) -> str:
        pair = f"{self.difference.a} → {self.difference.b}"
        return f"{pair} with {self.harness}" if self.harness else pair


class Report(Record, frozen=True):
    title: str
    rows: tuple[Row, ...]
    comparisons: tuple[Comparison, ...]
    manifest: dict[str, Any] = {}  # how the numbers came about: commit, checkpoints, seeds, sampling, task set
    schema: int = 1


def report(
    cells: Sequence[Cell],
    cfg: schema.Eval,
    *,
    title: str,
    seed: int = 0,
    manifest: Mapping[str, Any] | None = None,
) -> Report:
    """Measure every cell; policies are compared in the order given: each with the next, and the first with the last."""
    counted = [(cell, count(cell.trajectories)) for cell in cells]
    rows = tuple(_row(cell, tasks, cfg, seed) for cell, tasks in counted)
    comparisons = []
    for temperature, harness in dict.fromkeys((cell.temperature, cell.harness) for cell in cells):
        same = [(c, tasks) for c, tasks in counted if (c.temperature, c.harness) == (temperature, harness)]
        pairs = list(zip(same, same[1:], strict=False))
        if len(same) > 2:
            pairs.append((same[0], same[-1]))
        for (a, tasks_a), (b, tasks_b) in pairs:
            found = compare(
                (a.policy, tasks_a),
                (b.policy, tasks_b),
                confidence=cfg.confidence,
                resamples=cfg.resamples,
                seed=seed,
                max_lost=cfg.max_infra_rate,
                missing=(a.missing, b.missing),
            )
            comparisons.append(Comparison(temperature, found, harness))
    return Report(title, rows, tuple(comparisons), dict(manifest or {}))


def ks(most: int) -> list[int]:
    """1, 2, 4 … and `most` itself."""
    powers = [2**i for i in range(most.bit_length()) if 2**i < most]
    return [*powers, most]


def _families(tasks: Sequence[Counts]) -> list[str]:
    """Every family; of `part/family` names also each part, as a row over its families."""
    return sorted({t.family for t in tasks} | {t.family.rpartition("/")[0] for t in tasks if "/" in t.family})


def _belongs(family: str, row: str) -> bool:
    return family == row or (bool(row) and family.startswith(f"{row}/"))


def _row(cell: Cell, tasks: list[Counts], cfg: schema.Eval, seed: int) -> Row:
    def measure(
        some: Sequence[Counts], k: int = 1, every: bool = False, missing: int = cell.missing, rule: str = "unbiased"
    ) -> Estimate:
        return estimate(
            some,
            k=k,
            every=every,
            estimator=rule,
            confidence=cfg.confidence,
            resamples=cfg.resamples,
            seed=seed,
            max_lost=cfg.max_infra_rate,
            missing=missing,
        )

    most = min(cfg.k, max((t.n + t.lost for t in tasks), default=1))
    wider = [k for k in ks(most) if k > 1]
    estimates = [measure(tasks), *(measure(tasks, k) for k in wider), *(measure(tasks, k, True) for k in wider)]
    if wider:  # others report these for their k: the same attempts, another number
        estimates += [measure(tasks, wider[-1], every, rule="plug-in") for every in (False, True)]
    families = _families(tasks)
    made = cell.trajectories
    return Row(
        cell.policy,
        cell.temperature,
        tuple(estimates),
        {f or "(none)": measure([t for t in tasks if _belongs(t.family, f)], missing=0) for f in families},
        dict(sorted(Counter(t.outcome.value for t in made).items())),
        sum((t.usage for t in made), Usage()),
        sum(len(t.steps) for t in made) / len(made) if made else 0.0,
        cell.harness,
    )
