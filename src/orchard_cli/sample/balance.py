"""Balanced Adaptive Rollout (paper Alg. 1): draw attempts at one task in strides until a balanced group is there.

A state machine without any sampling in it: `wanted()` says how many attempts to draw now, `add()` takes how they
ended, `verdict()` says what became of the task once nothing more is wanted. A fixed group (GRPO) is the case
size = max = stride with any share of solved attempts.

Attempts whose outcome does not count (infrastructure, verifier, cancelled) never enter: they are drawn again in
the same stride, within `redraws`. An attempt that wall-clock time cut is backfill only, as in the paper.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from .. import schema
from ..outcome import Outcome
from ..trajectory import Trajectory

Why = Literal["early", "full", "relaxed", "best_effort", "no_positive", "no_negative", "short"]
_RANK = {Outcome.SOLVED: 0, Outcome.UNSOLVED: 0, Outcome.TRUNCATED: 1, Outcome.POLICY_INVALID: 1}


@dataclass(frozen=True)
class Draw:
    """What balancing needs to know of one attempt. `length` in sampled tokens, `backfill`: cut by time."""

    id: str
    outcome: Outcome
    length: int = 0
    backfill: bool = False

    @classmethod
    def of(cls, trajectory: Trajectory) -> "Draw":
        late = trajectory.stop == "time_limit"
        return cls(trajectory.id, trajectory.outcome, trajectory.usage.completion_tokens, late)

    @property
    def rank(self) -> tuple[int, int, str]:
        """Completed before cut, short before long (paper Alg. 1); the id makes the order total."""
        return _RANK[self.outcome], self.length, self.id


@dataclass(frozen=True)
class Verdict:
    """The end of one task's sampling. `kept` is empty if the task was dropped; ids appear in exactly one list."""

    why: Why
    kept: tuple[str, ...]
    discarded: tuple[str, ...]  # count, but are not in the group
    excluded: tuple[str, ...]  # say nothing about the policy
    strides: int
    solved: int  # among all that count: the pool, not the group
    kept_solved: int

    @property
    def pool(self) -> int:
        return len(self.kept) + len(self.discarded)


@dataclass
class Bar:
    """The sampling of one task. `redraws`: attempts that may be drawn again for ones that do not count."""

    group: schema.Group
    redraws: int = 8
    _pool: list[Draw] = field(default_factory=list)
    _excluded: list[Draw] = field(default_factory=list)
    _open: int = 0  # of the present stride, still to come
    _strides: int = 0
    _verdict: Verdict | None = None

    def __post_init__(self) -> None:
        self._start_stride()

    def wanted(self) -> int:
        """How many attempts to draw now; 0 when the verdict is there."""
        return 0 if self._verdict else self._open

    def add(self, draws: Sequence[Draw]) -> None:
        """Take the endings of attempts that were wanted, any number at once. Raises `ValueError` beyond that."""
        if len(draws) > self.wanted():
            raise ValueError(f"{len(draws)} attempts came, {self.wanted()} were wanted")
        for draw in draws:
            self._open -= 1
            if draw.outcome.counts:
                self._pool.append(draw)
                continue
            self._excluded.append(draw)
            if len(self._excluded) <= self.redraws:
                self._open += 1
        if draws and self._open == 0:
            self._end_stride()

    def verdict(self) -> Verdict | None:
        """None as long as attempts are wanted."""
        return self._verdict

    def _start_stride(self) -> None:
        self._open = self.group.stride
        self._strides += 1

    def _end_stride(self) -> None:
        last = self._strides == self.group.max // self.group.stride
        if kept := assemble(self._pool, self.group.size, self.group.low, self.group.high):
            self._settle("full" if last else "early", kept)
        elif not last:
            self._start_stride()
        else:
            middle = (self.group.low + self.group.high) / 2
            relaxed = assemble(self._pool, self.group.size, 0.0, 1.0, target=middle)
            self._settle("relaxed", relaxed) if relaxed else self._settle("best_effort", self._best())

    def _best(self) -> list[Draw]:
        return [d for part in _split(self._pool) for d in part][: self.group.size]

    def _settle(self, why: Why, kept: list[Draw]) -> None:
        """Groups without both signs teach nothing (paper 3.2) and are dropped, named by what they lack."""
        solved = sum(d.outcome is Outcome.SOLVED for d in kept)
        if solved in (0, len(kept)):
            short = len(kept) < self.group.size
            why, kept = "short" if short else "no_negative" if solved else "no_positive", []
        ids = {d.id for d in kept}
        self._verdict = Verdict(
            why,
            tuple(d.id for d in kept),
            tuple(d.id for d in self._pool if d.id not in ids),
            tuple(d.id for d in self._excluded),
            self._strides,
            sum(d.outcome is Outcome.SOLVED for d in self._pool),
            solved if kept else 0,
        )


def assemble(
    pool: Sequence[Draw], size: int, low: float, high: float, *, target: float | None = None
) -> list[Draw] | None:
    """A group of `size` with a solved share in [low, high], nearest to `target` (their middle); None if impossible."""
    positives, negatives, _ = _split(pool)
    if len(positives) + len(negatives) < size:
        return None
    best = round(((low + high) / 2 if target is None else target) * size)
    least, most = math.ceil(low * size - 1e-9), math.floor(high * size + 1e-9)
    for n in sorted(range(least, most + 1), key=lambda n: (abs(n - best), n)):
        if n <= len(positives) and size - n <= len(negatives):
            return positives[:n] + negatives[: size - n]
    return None


def _split(pool: Sequence[Draw]) -> tuple[list[Draw], list[Draw], list[Draw]]:
    """Positives, negatives, backfill, each by rank."""
    ranked = sorted(pool, key=lambda d: d.rank)
    positives = [d for d in ranked if d.outcome is Outcome.SOLVED and not d.backfill]
    negatives = [d for d in ranked if d.outcome is not Outcome.SOLVED and not d.backfill]
    return positives, negatives, [d for d in ranked if d.backfill]
