"""Small real things that the policy tests share: conversations, the tiny tokenizer, a tiny model."""

from collections.abc import Sequence

import pytest
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from orchard_cli import schema
from orchard_cli.policy.tiny import build_model, build_tokenizer
from orchard_cli.trajectory import Message

NAMES = ("total_count", "left", "rightmost", "fooBar", "price")
SMALL = schema.Model(hidden=32, layers=2, heads=2, ffn=64, vocab=480)


def conversation(number: int) -> list[Message]:
    name, line = NAMES[number % len(NAMES)], number % 9 + 1
    return [
        Message("user", f"The function {name} is wrong. Please fix it.\nFile: {name}.py"),
        Message("assistant", f"```bash\ncat -n {name}.py\n```"),
        Message("user", f"     {line}\tdef {name}(a, b):\n     {line + 1}\t    return {name} + b"),
        Message("assistant", f"```bash\nsed -i '{line}s/{name} + b/{name} - b/' {name}.py\n```"),
        Message("user", "(no output)"),
        Message("assistant", "```bash\necho COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n```"),
    ]


def said_by(role: str, conversations: Sequence[Sequence[Message]]) -> list[str]:
    return [m.content for c in conversations for m in c if role in ("", m.role)]


CORPUS = [conversation(i) for i in range(60)]


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerFast:
    return build_tokenizer(said_by("", CORPUS), SMALL.vocab, replies=said_by("assistant", CORPUS))


@pytest.fixture(scope="session")
def model(tokenizer: PreTrainedTokenizerFast) -> PreTrainedModel:
    return build_model(SMALL, tokenizer, seed=0)
