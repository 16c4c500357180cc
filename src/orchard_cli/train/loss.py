"""Losses as pure functions of log-probabilities at trained positions. Denominators are global: the caller gives them.

Shapes: N trained tokens of any number of sequences, one after the other. Everything is to be minimised. A
micro-batch adds its share, so that any cut of a batch has the same gradient (training reference, e).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import ConfigError


def cross_entropy(logprobs_N: Tensor, weights_N: Tensor, total: float) -> Tensor:
    """−Σ w log π / total, where `total` is Σ w over the whole optimiser step."""
    return -(logprobs_N * weights_N).sum() / total


def token_weights(lengths: Sequence[int], normalizer: str, *, constant: int = 0) -> list[float]:
    """What one trained token of each sequence weighs; lengths_B in trained tokens, over the whole mini-batch.

    token: 1 / Σ len (DAPO); sequence: 1 / (B · len_i), so long failures are punished less for each token (GRPO);
    constant: 1 / (B · constant), the plain policy gradient (Dr. GRPO).
    """
    if normalizer == "token":
        return [1.0 / sum(lengths)] * len(lengths)
    if normalizer == "sequence":
        return [1.0 / (len(lengths) * length) if length else 0.0 for length in lengths]
    if normalizer == "constant":
        if constant < 1:
            raise ConfigError(f"the constant normalizer needs a length, not {constant}")
        return [1.0 / (len(lengths) * constant)] * len(lengths)
    raise ConfigError(f"rl.normalizer is `{normalizer}`", hint="rl.normalizer is token, sequence or constant")


@dataclass(frozen=True)
class Clipped:
    """A policy-gradient loss and sums over its N tokens, for the caller to average."""

    loss: Tensor
    clipped: float  # tokens whose gradient the clip removed
    kl: float  # Σ (ρ − 1 − log ρ), ≥ 0: how far the policy moved in this update


def policy_gradient(
    new_N: Tensor,
    old_N: Tensor,
    advantages_N: Tensor,
    weights_N: Tensor,
    *,
    clip_low: float,
    clip_high: float,
    importance_N: Tensor | None = None,
) -> Clipped:
    """−Σ w · min(ρ A, clip(ρ, 1 − low, 1 + high) A) with ρ = π_θ / π_old (1707.06347; clip-higher: 2503.14476).

    `importance_N`, if given, multiplies the loss: the engine correction, see `truncated_importance`. That weight
    and ρ are two different ratios. No gradient flows through old, advantages or importance.
    """
    log_ratio = new_N - old_N.detach()
    ratio = log_ratio.exp()
    bounded = ratio.clamp(1 - clip_low, 1 + clip_high)
    plain, cut = ratio * advantages_N, bounded * advantages_N
    weights = weights_N if importance_N is None else weights_N * importance_N.detach()
    with torch.no_grad():
        clipped = (cut < plain).sum().item()
        kl = (ratio - 1 - log_ratio).sum().item()
    return Clipped(-(weights * torch.minimum(plain, cut)).sum(), clipped, kl)


def truncated_importance(old_N: Tensor, engine_N: Tensor, cap: float) -> Tensor:
    """min(π_old / μ, cap): corrects for an engine μ whose probabilities are not quite the trainer's (TIS)."""
    return (old_N - engine_N).exp().clamp(max=cap).detach()
