"""One policy update from balanced groups: recompute π_old, then a few clipped policy-gradient steps."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .. import schema
from ..data.batch import portions, rectangles
from ..data.example import Example
from ..errors import DataError
from ..policy.sight import Sight
from .compute import Compute
from .loss import policy_gradient, token_weights, truncated_importance
from .optim import Optim
from .rows import Rows, collate
from .sft import clip


@dataclass(frozen=True)
class RlUpdate:
    """What one update did. The mismatch compares π_old as the trainer computes it with what the engine said."""

    sequences: int
    tokens: int  # read
    trained: int
    losses: tuple[float, ...]  # one for each optimiser step
    grad_norms: tuple[float, ...]
    clip_share: float  # of trained tokens
    kl: float  # mean of ρ − 1 − log ρ: how far the update went
    mismatch_mean: float | None  # |log π_old − log μ|; None if the engine gave no log-probabilities
    mismatch_max: float | None
    importance_mean: float | None  # of min(π_old / μ, cap)
    nll: float  # −mean log π_old of trained tokens: an estimate of the entropy for each token
    advantage_sum: float  # Σ len · A: not 0 when lengths differ, see `normalizer`
    seconds: float


@dataclass
class _Sums:
    clipped: float = 0.0
    kl: float = 0.0


@dataclass(frozen=True)
class _Old:
    """Per example, in its order: π_old of its trained tokens, and the engine correction (or None)."""

    logprobs: list[Tensor]
    importance: list[Tensor] | None
    mismatch: Tensor | None


def update_rl(
    model: nn.Module,
    optim: Optim,
    groups: Sequence[Sequence[Example]],
    cfg: schema.Rl,
    *,
    seed: int,
    share: float = 1.0,
    constant: int = 0,
    engine_cap: float = 2.0,
    precision: str = "bfloat16",
    micro_tokens: int = 4096,
    sight: Sight | None = None,
) -> RlUpdate:
    """Update `model` (float32 weights, in place) by `cfg.minibatches` steps over the groups' examples.

    Examples of one trajectory (the ledgers of an attempt from which older pictures left) share its advantage, go into
    one minibatch, and count as one sequence to `normalizer`. sight: for a model that sees.
    constant: the length of `normalizer=constant`. engine_cap: cap of the truncated importance weight π_old / μ,
    used where every example has engine log-probabilities; 0 switches it off. share: of the peak rates.
    Raises `DataError` without examples, `RunError` if a gradient is not finite.
    """
    examples = [e for group in groups for e in group]
    if not examples:
        raise DataError("no group was kept, so there is nothing to update from")
    began = time.monotonic()
    compute = Compute(model, precision=precision, temperature=cfg.temperature, sight=sight)
    old = _before(compute, examples, micro_tokens, engine_cap)
    sums, losses, norms = _Sums(), [], []
    attempts = _attempts(examples)
    for chosen in portions(range(len(attempts)), cfg.minibatches, seed=seed):
        numbers = [i for attempt in chosen for i in attempts[attempt]]
        losses.append(_minibatch(compute, examples, numbers, old, cfg, constant, micro_tokens, sums))
        norms.append(clip(model, cfg.grad_clip))
        optim.step(share)
        compute.refresh()
    return _report(examples, old, sums, losses, norms, time.monotonic() - began)


def _report(
    examples: Sequence[Example], old: _Old, sums: _Sums, losses: list[float], norms: list[float], seconds: float
) -> RlUpdate:
    trained = sum(e.trained for e in examples)
    gap = old.mismatch
    return RlUpdate(
        len(examples),
        sum(len(e.ids) for e in examples),
        trained,
        tuple(losses),
        tuple(norms),
        sums.clipped / trained,
        sums.kl / trained,
        None if gap is None else gap.mean().item(),
        None if gap is None else gap.max().item(),
        torch.cat(old.importance).mean().item() if old.importance else None,
        -torch.cat(old.logprobs).mean().item(),
        sum(e.trained * e.advantage for e in examples),
        seconds,
    )


def _minibatch(
    compute: Compute,
    examples: Sequence[Example],
    numbers: Sequence[int],
    old: _Old,
    cfg: schema.Rl,
    constant: int,
    micro_tokens: int,
    sums: _Sums,
) -> float:
    """Gradients of one mini-batch; its denominators are global over the micro-batches. Returns the loss."""
    attempts = _attempts(examples, numbers)
    lengths = [sum(examples[i].trained for i in attempt) for attempt in attempts]
    given = token_weights(lengths, cfg.normalizer, constant=constant)
    weight = {i: w for attempt, w in zip(attempts, given, strict=True) for i in attempt}
    loss = 0.0
    for chosen, rows in _micro(examples, numbers, micro_tokens, compute.device):
        per_row = torch.tensor([weight[i] for i in chosen], device=compute.device)
        advantage = torch.tensor([examples[i].advantage for i in chosen], device=compute.device)
        part = policy_gradient(
            compute.logprobs(rows),
            torch.cat([old.logprobs[i] for i in chosen]),
            advantage[rows.row_N],
            rows.weights_N * per_row[rows.row_N],
            clip_low=cfg.clip_low,
            clip_high=cfg.clip_high,
            importance_N=torch.cat([old.importance[i] for i in chosen]) if old.importance else None,
        )
        compute.backward(part.loss)
        loss += part.loss.item()
        sums.clipped += part.clipped
        sums.kl += part.kl
    return loss


def _attempts(examples: Sequence[Example], numbers: Sequence[int] | None = None) -> list[list[int]]:
    """Example numbers by trajectory, in order of their first."""
    found: dict[str, list[int]] = {}
    for i in range(len(examples)) if numbers is None else numbers:
        found.setdefault(examples[i].trajectory, []).append(i)
    return list(found.values())


def _before(compute: Compute, examples: Sequence[Example], micro_tokens: int, cap: float) -> _Old:
    """π_old by the trainer itself, so that ρ is 1 at the start whatever the engine's number format."""
    logprobs: list[Tensor] = [torch.empty(0)] * len(examples)
    importance: list[Tensor] = [torch.empty(0)] * len(examples)
    gaps: list[Tensor] = []
    known = all(e.logprobs for e in examples)
    for chosen, rows in _micro(examples, range(len(examples)), micro_tokens, compute.device):
        with torch.no_grad():
            found = compute.logprobs(rows)
        counts = [examples[i].trained for i in chosen]
        for i, part in zip(chosen, found.split(counts), strict=True):
            logprobs[i] = part
        if known and rows.engine_N is not None:
            gaps.append((found - rows.engine_N).abs())
            for i, part in zip(
                chosen, truncated_importance(found, rows.engine_N, cap or 1.0).split(counts), strict=True
            ):
                importance[i] = part
    return _Old(logprobs, importance if known and cap else None, torch.cat(gaps) if known else None)


def _micro(
    examples: Sequence[Example], numbers: Sequence[int], max_tokens: int, device: torch.device
) -> Iterator[tuple[tuple[int, ...], Rows]]:
    for chosen in rectangles([len(e.ids) for e in examples], numbers, max_tokens=max_tokens):
        yield chosen, collate([examples[i] for i in chosen], device)
