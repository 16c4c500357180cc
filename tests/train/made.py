"""A model of a few thousand parameters and examples of random tokens."""

import random

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from orchard_cli.data.example import Example

VOCAB = 24


def model(seed: int = 0, **options) -> Qwen3ForCausalLM:
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=VOCAB,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        max_position_embeddings=256,
        tie_word_embeddings=True,
        **options,
    )
    return Qwen3ForCausalLM(config)


def example(rng: random.Random, length: int, *, advantage: float = 1.0, engine: bool = False) -> Example:
    weights = (0.0, *(float(rng.random() < 0.5) for _ in range(length - 2)), 1.0)
    return Example(
        f"a{rng.getrandbits(64)}",
        tuple(rng.randrange(VOCAB) for _ in range(length)),
        weights,
        ((length, ""),),
        int(sum(weights)),
        tuple(-rng.random() * 4 for _ in range(length)) if engine else (),
        advantage,
    )


def examples(n: int, seed: int = 0, **options) -> list[Example]:
    rng = random.Random(seed)
    return [example(rng, rng.randint(3, 17), **options) for _ in range(n)]


def flat(model) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])
