"""Sampling one conversation at a time with transformers' own cache: slower, and right for every architecture."""

from typing import TYPE_CHECKING

from .request import Request, Sampled
from .sampler import draw, not_finite

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def attends_to_all(model: "PreTrainedModel") -> bool:
    """Whether every layer attends to all tokens before, so that rows of any length can share one pass (`Slots`)."""
    config = model.config.get_text_config()
    if getattr(model, "_is_stateful", False) or getattr(config, "kv_lora_rank", None):
        return False
    layers = getattr(config, "layer_types", None)
    if layers is not None:
        return set(layers) == {"full_attention"}
    return getattr(config, "sliding_window", None) is None


def sample_alone(model: "PreTrainedModel", request: Request, version: int) -> Sampled:
    """Sample the whole reply. Raises `PolicyError` if the model's output is not finite."""
    import torch
    from transformers import DynamicCache

    cache = DynamicCache(config=model.config)
    ids = list(request.prompt)
    while True:
        positions = torch.arange(request.length - len(ids), request.length, device=model.device)
        out = model(
            input_ids=torch.tensor([ids], device=model.device),
            position_ids=positions[None],
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        token, logprob = draw([request], out.logits[:, -1].float())[0]
        request.ids.append(token)
        request.logprobs.append(logprob)
        if request.broken:
            raise not_finite(version)
        if request.ended:
            return request.sampled(version)
        ids = [token]
