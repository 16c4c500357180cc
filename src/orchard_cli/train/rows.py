"""A micro-batch: examples padded on the right into one rectangle, and where in it the trained tokens are."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..data.example import Example
from ..trajectory import Shown


@dataclass(frozen=True)
class Rows:
    """ids_BT; N trained tokens: `at_N` flat positions (of the token before) whose output predicts `targets_N`."""

    ids_BT: Tensor
    at_N: Tensor
    targets_N: Tensor
    weights_N: Tensor  # the examples' own
    row_N: Tensor  # which example
    engine_N: Tensor | None  # log-probabilities of the sampling engine; None if an example has none
    images: tuple[tuple[Shown, ...], ...] = ()  # of each example
    names: tuple[str, ...] = ()  # of the examples' trajectories


def collate(examples: Sequence[Example], device: torch.device | str = "cpu") -> Rows:
    """Padding needs no mask: attention is causal and what stands right of a token cannot reach it."""
    longest = max(len(e.ids) for e in examples)
    ids = torch.zeros(len(examples), longest, dtype=torch.long)
    at, targets, weights, rows, engine = [], [], [], [], []
    for b, example in enumerate(examples):
        ids[b, : len(example.ids)] = torch.tensor(example.ids)
        for t, weight in enumerate(example.weights):
            if weight > 0:
                at.append(b * longest + t - 1)
                targets.append(example.ids[t])
                weights.append(weight)
                rows.append(b)
                engine.append(example.logprobs[t] if example.logprobs else 0.0)
    known = all(e.logprobs for e in examples)
    return Rows(
        ids.to(device),
        torch.tensor(at, dtype=torch.long, device=device),
        torch.tensor(targets, dtype=torch.long, device=device),
        torch.tensor(weights, dtype=torch.float32, device=device),
        torch.tensor(rows, dtype=torch.long, device=device),
        torch.tensor(engine, dtype=torch.float32, device=device) if known else None,
        tuple(e.images for e in examples),
        tuple(e.trajectory for e in examples),
    )
