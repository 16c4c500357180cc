"""Causal attention as plain matrix products, for short sequences on a CPU.

There the backward pass of PyTorch's fused attention takes half of a small model's step; two batched matrix
products and a softmax in the working format take a third of that. For long sequences or other devices the
model's own attention is used.
"""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface

PLAIN = "orchard_plain"
LONGEST = 1024  # beyond it the T × T scores cost more than they save


def plain_fits(model: Any, length: int) -> bool:
    """Only for full causal attention without dropout, on a CPU."""
    config = model.config
    layers = getattr(config, "layer_types", None) or []
    return (
        length <= LONGEST
        and next(model.parameters()).device.type == "cpu"
        and config.model_type in ("llama", "qwen2", "qwen3")
        and all(kind == "full_attention" for kind in layers)
        and not (getattr(config, "use_sliding_window", False) and getattr(config, "sliding_window", None))
        and not getattr(config, "attention_dropout", 0.0)
    )


def _plain(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    """query_BHTD, key and value with as many or fewer heads; returns (B, T, H, D)."""
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    length = query.shape[2]
    scores = torch.matmul(query * options["scaling"], key.transpose(-1, -2))
    future = torch.full((length, length), float("-inf"), dtype=scores.dtype).triu_(1)
    return torch.matmul(torch.softmax(scores + future, -1), value).transpose(1, 2).contiguous(), None


def _no_mask(*args: Any, **options: Any) -> None:
    return None


AttentionInterface.register(PLAIN, _plain)
AttentionMaskInterface.register(PLAIN, _no_mask)
