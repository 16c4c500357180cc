"""Choosing the next token of each row, so that a draw depends on its own seed and never on its neighbours."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import PolicyError
from .request import Request

if TYPE_CHECKING:
    from torch import Tensor


def draw(rows: Sequence[Request], logits_BV: "Tensor") -> list[tuple[int, float]]:
    """The next token of each request and its log-prob, by the request's own settings and numbers."""
    import torch

    settings = [(r.temperature, r.top_p, r.draws[len(r.ids)]) for r in rows]
    temperature_B, top_p_B, uniform_B = torch.tensor(settings, dtype=torch.float64, device=logits_BV.device).T
    ids_B, logp_B = pick(logits_BV, temperature_B.float(), top_p_B, uniform_B)
    return list(zip(ids_B.tolist(), logp_B.tolist(), strict=True))


def not_finite(version: int) -> PolicyError:
    return PolicyError(
        f"the model's output is not a number (weight version {version})",
        code="not_finite",
        attributable="client",
        effect="none",
        retry="never",
        hint="the weights are broken: take an earlier checkpoint, or a lower learning rate",
    )


def pick(
    logits_BV: "Tensor", temperature_B: "Tensor", top_p_B: "Tensor", uniform_B: "Tensor"
) -> tuple["Tensor", "Tensor"]:
    """Token ids (B) and their natural-log probabilities (B) at the sampling temperature.

    logits_BV: float32. temperature 0 takes the likeliest token; its log-prob is that at temperature 1. Otherwise
    the token is where the cumulated probability passes uniform in [0, 1). Log-probs are those of the whole
    distribution, before `top_p` cuts it: that is what a trainer computes.
    """
    import torch

    greedy_B = temperature_B <= 0
    logp_BV = torch.log_softmax(logits_BV / torch.where(greedy_B, 1.0, temperature_B)[:, None], -1)
    probs_BV = logp_BV.exp().double()
    if bool((top_p_B < 1).any()):
        probs_BV = _nucleus(probs_BV, top_p_B)
    mass_BV = probs_BV.cumsum(-1)
    drawn_B = (mass_BV <= uniform_B[:, None] * mass_BV[:, -1:]).sum(-1).clamp(max=logits_BV.shape[-1] - 1)
    ids_B = torch.where(greedy_B, logits_BV.argmax(-1), drawn_B)
    return ids_B, logp_BV.gather(-1, ids_B[:, None])[:, 0]


def _nucleus(probs_BV: "Tensor", top_p_B: "Tensor") -> "Tensor":
    """Keep the likeliest tokens until their mass reaches top_p; the one that reaches it is kept."""
    sorted_BV, order_BV = probs_BV.sort(dim=-1, descending=True, stable=True)
    before_BV = sorted_BV.cumsum(-1) - sorted_BV
    kept_BV = sorted_BV.masked_fill(before_BV >= top_p_B[:, None], 0.0)
    return probs_BV.new_zeros(probs_BV.shape).scatter(-1, order_BV, kept_BV)
