"""What one step's sampling cost and gave: the numbers that show whether balancing pays."""

from collections import Counter
from collections.abc import Iterable

from ..trajectory.types import Record
from .balance import Verdict


class Telemetry(Record, frozen=True):
    """Counts over the tasks of one step. Attempts: sampled = used + discarded + excluded."""

    tasks: int
    groups: int  # kept
    why: dict[str, int]  # how tasks ended: early, full, relaxed, … no_positive
    sampled: int
    used: int
    discarded: int
    excluded: int
    strides: dict[int, int]  # tasks by number of strides drawn
    pass_rate: float | None  # of everything drawn that counts
    kept_pass_rate: float | None  # of the kept groups: pinned by balancing, says little
    per_group: float | None  # attempts sampled for each kept group
    per_used: float | None  # attempts sampled for each used one


def telemetry(verdicts: Iterable[Verdict]) -> Telemetry:
    """Sum up the verdicts of one step."""
    every = list(verdicts)
    used = sum(len(v.kept) for v in every)
    discarded = sum(len(v.discarded) for v in every)
    excluded = sum(len(v.excluded) for v in every)
    groups = sum(bool(v.kept) for v in every)
    sampled, pool = used + discarded + excluded, used + discarded
    return Telemetry(
        tasks=len(every),
        groups=groups,
        why=dict(Counter(v.why for v in every)),
        sampled=sampled,
        used=used,
        discarded=discarded,
        excluded=excluded,
        strides=dict(sorted(Counter(v.strides for v in every).items())),
        pass_rate=sum(v.solved for v in every) / pool if pool else None,
        kept_pass_rate=sum(v.kept_solved for v in every) / used if used else None,
        per_group=sampled / groups if groups else None,
        per_used=sampled / used if used else None,
    )
