"""What a file of trajectories holds, in numbers. Nothing is left out without being counted."""

import math
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from ..outcome import Outcome
from .scan import Record, scan
from .types import Ledger, Origin, Trajectory, Usage

_QUANTILES = (0.5, 0.9, 1.0)


@dataclass
class TokenStats:
    """Tokens of all ledgers. masked: sampled ones that may not be trained on, by reason; context: the others."""

    total: int = 0
    sampled: int = 0  # counted by their log-probabilities, which makes `balanced` a real check
    trainable: int = 0
    masked: Counter[str] = field(default_factory=Counter)
    origins: Counter[str] = field(default_factory=Counter)
    context: Counter[str] = field(default_factory=Counter)

    @property
    def balanced(self) -> bool:
        """sampled = trainable + Σ masked, and every token has an origin."""
        accounted = self.trainable + self.masked.total()
        return self.sampled == accounted and self.total == self.origins.total()

    def add(self, ledger: Ledger) -> None:
        self.total += len(ledger.ids)
        self.sampled += len(ledger.logprobs)
        for run in ledger.runs:
            self.origins[run.origin.value] += run.length
            if run.origin != Origin.POLICY:
                self.context[run.mask] += run.length
            elif run.mask:
                self.masked[run.mask] += run.length
            else:
                self.trainable += run.length


@dataclass
class TrajStats:
    """Counts of records by field. families: outcome counts of each family. unreadable: problems by code."""

    file: str
    bytes: int = 0
    records: int = 0
    stages: Counter[str] = field(default_factory=Counter)
    splits: Counter[str] = field(default_factory=Counter)
    policies: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    stops: Counter[str] = field(default_factory=Counter)
    families: dict[str, Counter[str]] = field(default_factory=dict)
    faults: Counter[str] = field(default_factory=Counter)
    steps: Counter[int] = field(default_factory=Counter)
    tokens: TokenStats = field(default_factory=TokenStats)
    usage: Usage = Usage()
    wall_s: float = 0.0
    unreadable: Counter[str] = field(default_factory=Counter)
    first_unreadable: str = ""

    @property
    def counted(self) -> int:
        """Records whose outcome says something about the policy."""
        return sum(count for outcome, count in self.outcomes.items() if Outcome(outcome).counts)

    def step_quantiles(self) -> dict[float, int]:
        """Steps of an attempt at the 0.5, 0.9 and 1.0 quantile (nearest rank); empty without records."""
        ordered = sorted(self.steps.elements())
        return {q: ordered[max(0, math.ceil(q * len(ordered)) - 1)] for q in _QUANTILES} if ordered else {}

    def add(self, t: Trajectory) -> None:
        self.records += 1
        self.stages[t.stage] += 1
        self.splits[t.split] += 1
        self.policies[t.policy] += 1
        self.outcomes[t.outcome.value] += 1
        self.stops[t.stop] += 1
        self.families.setdefault(t.family, Counter())[t.outcome.value] += 1
        self.steps[len(t.steps)] += 1
        self.usage += t.usage
        self.wall_s += t.wall_s
        if t.fault:
            self.faults[t.fault.code] += 1
        for ledger in t.ledgers:
            self.tokens.add(ledger)


def stats(path: str | os.PathLike[str]) -> TrajStats:
    """Count everything in the file; what cannot be read is counted too, and the first such place kept.

    Raises `DataError` only if the file is not there, cannot be read, is empty or no such file.
    """
    result = TrajStats(str(path))
    for found in scan(path):
        if isinstance(found, Record):
            result.add(found.trajectory)
        else:
            result.unreadable[found.code] += 1
            result.first_unreadable = result.first_unreadable or str(found)
    result.bytes = Path(path).stat().st_size
    return result
