"""The tiny policy with eyes: a Qwen3-VL of under a million parameters with random weights, for tests and demos.

Its vision tower stays random, since towers are never trained: it tells colours and rough shapes apart, no more.
"""

from typing import TYPE_CHECKING, Any

from .. import schema
from ..errors import ConfigError
from . import tiny

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

SIGNS = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
_PARTS = (
    "{%- if m.content is string -%}{{- m.content -}}{%- else -%}{%- for part in m.content -%}"
    "{%- if part.type == 'image' -%}{{- '<|vision_start|><|image_pad|><|vision_end|>' -}}"
    "{%- else -%}{{- part.text -}}{%- endif -%}{%- endfor -%}{%- endif -%}"
)
TEMPLATE = tiny.TEMPLATE.replace("{{- m.content -}}", _PARTS)

_PATCH, _MERGE, _WIDTH = 16, 2, 64
_PIXELS = {"shortest_edge": 4096, "longest_edge": 65536}  # a picture is 4 to 64 tokens


def build_model(cfg: schema.Model, tokenizer: "PreTrainedTokenizerFast", seed: int) -> "PreTrainedModel":
    """Random float32 weights that follow from `seed` alone; embeddings are tied."""
    import torch
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

    if cfg.hidden % (2 * cfg.heads) or cfg.hidden // cfg.heads < 6:
        raise ConfigError(f"model.hidden ({cfg.hidden}) is no even multiple of model.heads ({cfg.heads}) of 6 or more")
    start, end, image, video = (int(tokenizer.vocab[sign]) for sign in SIGNS)
    config = Qwen3VLConfig(
        text_config=_text(cfg, tokenizer),
        vision_config={
            "depth": 2,
            "hidden_size": _WIDTH,
            "intermediate_size": 2 * _WIDTH,
            "num_heads": 4,
            "patch_size": _PATCH,
            "spatial_merge_size": _MERGE,
            "temporal_patch_size": 2,
            "out_hidden_size": cfg.hidden,
            "num_position_embeddings": 256,
            "deepstack_visual_indexes": [0],
        },
        image_token_id=image,
        video_token_id=video,
        vision_start_token_id=start,
        vision_end_token_id=end,
        tie_word_embeddings=True,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Qwen3VLForConditionalGeneration(config)


def _text(cfg: schema.Model, tokenizer: "PreTrainedTokenizerFast") -> dict[str, Any]:
    """The decoder, as `tiny` has it but for its rotary positions in three axes."""
    dim = cfg.hidden // cfg.heads
    third = dim // 6
    return {
        "vocab_size": len(tokenizer),
        "hidden_size": cfg.hidden,
        "intermediate_size": cfg.ffn,
        "num_hidden_layers": cfg.layers,
        "num_attention_heads": cfg.heads,
        "num_key_value_heads": cfg.heads,
        "head_dim": dim,
        "max_position_embeddings": 32768,
        "tie_word_embeddings": True,
        "bos_token_id": None,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000.0,
            "mrope_section": [dim // 2 - 2 * third, third, third],
            "mrope_interleaved": True,
        },
    }


def build_processor() -> Any:
    """The image processor: pictures shrink to at most 256 x 256 pixels' worth, which is 64 tokens."""
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    return Qwen2VLImageProcessorPil(
        patch_size=_PATCH, merge_size=_MERGE, image_mean=[0.5] * 3, image_std=[0.5] * 3, size=dict(_PIXELS)
    )
