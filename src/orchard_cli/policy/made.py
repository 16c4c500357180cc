"""Policies that are built here: the tokenizer from a run's own text, random weights."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .. import schema
from . import tiny, tiny_vl

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast


def build(
    cfg: schema.Model, texts: Iterable[str], replies: Iterable[str], seed: int
) -> "tuple[PreTrainedModel, PreTrainedTokenizerFast, Any]":
    """Model, tokenizer, and the image processor of one that sees (else None), as `cfg.kind` says.

    texts, replies: as `tiny.build_tokenizer` takes them.
    """
    if cfg.kind != "tiny_vl":
        tokenizer = tiny.build_tokenizer(texts, cfg.vocab, replies=replies)
        return tiny.build_model(cfg, tokenizer, seed), tokenizer, None
    tokenizer = tiny.build_tokenizer(texts, cfg.vocab, replies=replies, extra=tiny_vl.SIGNS)
    tokenizer.chat_template = tiny_vl.TEMPLATE
    return tiny_vl.build_model(cfg, tokenizer, seed), tokenizer, tiny_vl.build_processor()
