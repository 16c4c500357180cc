"""Rising segments: the steps of an unresolved attempt that are worth learning from.

Two rules. `step` is the paper's (eq. 2): maximal runs of steps with c_t = V(s_{t+1}) − V(s_t) ≥ ε. Between two
anchors c_t is the same for each step, so a slow climb of 0.3 over ten steps is lost. `interval` asks
instead for the whole rise between two neighbouring anchors to reach ε, and keeps all steps between them.
"""

from itertools import pairwise

from ..errors import ConfigError
from .value import Curve

SLACK = 1e-9  # 0.15 − 0.10 is a little less than 0.05 in floating point, and must count


def rising(curve: Curve, *, epsilon: float, rule: str) -> tuple[tuple[int, int], ...]:
    """Half-open step ranges [start, stop), maximal, in order. rule: step | interval."""
    if rule == "step":
        values = curve.values()
        rises = [(t, t + 1, b - a) for t, (a, b) in enumerate(pairwise(values))]
    elif rule == "interval":
        rises = [(a.step, b.step, b.value - a.value) for a, b in pairwise(curve.anchors)]
    else:
        raise ConfigError(f"credit.rule is `{rule}`", hint="credit.rule is step or interval")
    return _merge([(start, stop) for start, stop, rise in rises if rise >= epsilon - SLACK])


def _merge(ranges: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    merged: list[tuple[int, int]] = []
    for start, stop in ranges:
        if merged and merged[-1][1] == start:
            merged[-1] = (merged[-1][0], stop)
        else:
            merged.append((start, stop))
    return tuple(merged)
