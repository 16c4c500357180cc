"""Which examples make an optimiser step, and how they lie in rectangles. Pure functions of lengths and a seed.

Examples are padded on the right and sorted by length, not packed: with causal attention a token never sees the
padding after it, so no mask is needed at all, sequences cannot leak into each other, and short rows keep
attention cheap. A step's examples are cut into micro-batches that never change its gradient.
"""

import random
from collections.abc import Sequence


def plan(lengths: Sequence[int], *, batch_tokens: int, budget: int, seed: int) -> list[tuple[int, ...]]:
    """Optimiser steps as tuples of example numbers, until `budget` tokens are read.

    Each epoch is a fresh permutation by (seed, epoch); a step holds as many examples as fit into `batch_tokens`,
    at least one, and may span two epochs. At least one step; none if there are no examples.
    """
    steps: list[tuple[int, ...]] = []
    step: list[int] = []
    read = held = epoch = 0
    while lengths and read < budget:
        order = list(range(len(lengths)))
        random.Random(f"{seed}/{epoch}").shuffle(order)
        for i in order:
            if step and held + lengths[i] > batch_tokens:
                steps.append(tuple(step))
                step, held = [], 0
                if read >= budget:
                    return steps
            step.append(i)
            held += lengths[i]
            read += lengths[i]
        epoch += 1
    return [*steps, tuple(step)] if step else steps


def rectangles(lengths: Sequence[int], numbers: Sequence[int], *, max_tokens: int) -> list[tuple[int, ...]]:
    """Cut `numbers` into micro-batches: rows × longest ≤ max_tokens (a longer row stands alone), longest first."""
    cut: list[tuple[int, ...]] = []
    rows: list[int] = []
    for i in sorted(numbers, key=lambda i: (-lengths[i], i)):
        if rows and (len(rows) + 1) * lengths[rows[0]] > max_tokens:
            cut.append(tuple(rows))
            rows = []
        rows.append(i)
    return [*cut, tuple(rows)] if rows else cut


def portions(numbers: Sequence[int], parts: int, *, seed: int) -> list[tuple[int, ...]]:
    """Shuffle and deal into at most `parts` mini-batches of nearly equal count, none empty."""
    order = list(numbers)
    random.Random(seed).shuffle(order)
    return [tuple(order[k::parts]) for k in range(min(parts, len(order)))]
