"""The value curve of one attempt: a few anchors, and the straight lines between them.

With T steps there are T + 1 states: s_t is the state before step t, s_T the end. V(s_t) is the probability
that the attempt is resolved from s_t on (paper eq. 1). V(s_T) is not an estimate: the outcome is known.
"""

import math
from itertools import pairwise

from ..errors import DataError
from ..trajectory.types import Record


class Anchor(Record, frozen=True):
    """V(s_step) = value, between `low` and `high`; `n` finishes behind it, 0 if it was judged and not counted."""

    step: int
    value: float
    low: float = 0.0
    high: float = 1.0
    n: int = 0


class Curve(Record, frozen=True):
    """Anchors of an attempt of `steps` steps, in order; the last one is the known end. Made by `curve`."""

    steps: int
    anchors: tuple[Anchor, ...]

    def values(self) -> tuple[float, ...]:
        """V(s_0) … V(s_T), shape (T + 1,). Before the first anchor the value is held: no rise is made up."""
        first = self.anchors[0]
        values = [first.value] * (first.step + 1)
        for a, b in pairwise(self.anchors):
            slope = (b.value - a.value) / (b.step - a.step)
            values += [a.value + slope * (t - a.step) for t in range(a.step + 1, b.step)] + [b.value]
        return tuple(values)


def curve(steps: int, anchors: tuple[Anchor, ...], *, resolved: bool) -> Curve:
    """Check the anchors and add the known end. Raises `DataError` that names what is wrong."""
    end = 1.0 if resolved else 0.0
    if steps < 1 or not anchors:
        raise DataError(f"a value curve needs a step and an anchor (steps {steps}, anchors {len(anchors)})")
    for anchor in anchors:
        if not 0 <= anchor.step <= steps:
            raise DataError(f"anchor at step {anchor.step} is outside 0 … {steps}")
        if not (math.isfinite(anchor.value) and 0 <= anchor.value <= 1):
            raise DataError(f"anchor at step {anchor.step}: value {anchor.value} is outside [0, 1]")
    for a, b in pairwise(anchors):
        if b.step <= a.step:
            raise DataError(f"anchors are not in rising order: step {b.step} follows step {a.step}")
    if anchors[-1].step == steps:
        if anchors[-1].value != end:
            raise DataError(f"anchor at the end says {anchors[-1].value}, but the outcome is {end:g}")
        return Curve(steps, anchors)
    return Curve(steps, (*anchors, Anchor(steps, end, end, end)))
