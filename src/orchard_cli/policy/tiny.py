"""A policy of a few million parameters, made here: a tokenizer trained on the distilled text, random weights.

What helps so small a model (measurements in `bench/policy.py` and the CPU notes): few tokens a turn, so phrases
that replies keep repeating are one token; digits and punctuation alone; and names cut the same way wherever they
stand, never glued to a space, so that copying a name from a listing is copying a token.
"""

import json
import keyword
import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from .. import schema
from ..errors import ConfigError

if TYPE_CHECKING:
    from tokenizers.models import BPE
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

END, PAD = "<|end|>", "<|pad|>"
ROLES = {role: f"<|{role}|>" for role in ("system", "user", "assistant", "tool")}

# One token for the role, one for the end. Tool schemas are left out: this model learns its tools by using them.
TEMPLATE = (
    "{%- for m in messages -%}"
    "{{- '<|' + m.role + '|>' -}}"
    "{%- if m.reasoning_content -%}{{- '<think>\\n' + m.reasoning_content + '\\n</think>\\n\\n' -}}{%- endif -%}"
    "{{- m.content -}}"
    "{%- for c in m.tool_calls or [] -%}{{- '\\n' if m.content or not loop.first -}}"
    '{{- \'<tool_call>\\n{"name": "\' + c.function.name + \'", "arguments": \' -}}'
    "{{- c.function.arguments | tojson + '}\\n</tool_call>' -}}"
    "{%- endfor -%}"
    "{{- '<|end|>' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|assistant|>' -}}{%- endif -%}"
)

_OPERATOR = r" (?:==|!=|<=|>=|//|\*\*|->|[-+*/%]=|[-+*/%<>=]) "
_PIECE = r"\p{Lu}?\p{Ll}+|\p{Lu}+(?!\p{Ll})|\p{L}\p{M}*"
_REST = rf"{_OPERATOR}|, |{_PIECE}|\p{{N}}|\s+|[^\s\p{{L}}\p{{N}}]"
_ATOM = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[^\W\d_]|\d|\s+|.", re.DOTALL)


def build_tokenizer(
    texts: Iterable[str], vocab: int, *, replies: Iterable[str] = (), extra: Sequence[str] = ()
) -> "PreTrainedTokenizerFast":
    """A byte-level tokenizer with at most `vocab` tokens; `decode(encode(x)) == x` for every text.

    texts: contents of messages. replies: what assistants said; what they keep repeating becomes one token each.
    The same input gives the same tokenizer. vocab counts the 256 bytes and the special tokens: six, and `extra`.
    """
    from tokenizers import Regex, Tokenizer, decoders, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    texts = _drawn(texts, 20_000)
    fixed = phrases(replies)
    words = common_words(texts)
    glued = [rf" ?(?<!\w)(?:{'|'.join(words)})(?!\w) ?"] if words else []
    pattern = "|".join([*map(_literal, fixed), *glued, _REST])
    cut = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(piece for piece, _ in cut.pre_tokenize_str(text))
    special = [PAD, END, *ROLES.values(), *extra]
    tokenizer = Tokenizer(_vocabulary(counts, vocab - len(special)))
    tokenizer.pre_tokenizer = cut
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=PAD,
        extra_special_tokens=[*ROLES.values(), *extra],
        clean_up_tokenization_spaces=False,
    )
    fast.chat_template = TEMPLATE
    return fast


def build_model(cfg: schema.Model, tokenizer: "PreTrainedTokenizerFast", seed: int) -> "PreTrainedModel":
    """A Qwen3-style decoder with random float32 weights that follow from `seed` alone; embeddings are tied."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    if cfg.hidden % (2 * cfg.heads):
        raise ConfigError(f"model.hidden ({cfg.hidden}) is not an even multiple of model.heads ({cfg.heads})")
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=cfg.hidden,
        intermediate_size=cfg.ffn,
        num_hidden_layers=cfg.layers,
        num_attention_heads=cfg.heads,
        num_key_value_heads=cfg.heads,
        head_dim=cfg.hidden // cfg.heads,
        max_position_embeddings=32768,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Qwen3ForCausalLM(config)


def phrases(replies: Iterable[str], *, share: float = 0.15, most: int = 64) -> list[str]:
    """Runs of text that at least `share` of the replies contain, longest first; none has a digit.

    Found like byte pairs, over words and signs in place of bytes, counting each reply once.
    """
    docs = [_ATOM.findall(text) for text in _drawn(replies, 1000)]
    least = max(2.0, share * len(docs))
    for _ in range(8 * most):
        pairs = Counter(pair for doc in docs for pair in set(pairwise(doc)) if not re.search(r"\d", "".join(pair)))
        best = max(pairs, key=lambda pair: (pairs[pair], pair), default=None)
        if best is None or pairs[best] < least:
            break
        docs = [_merged(doc, best) for doc in docs]
    found = Counter(unit for doc in docs for unit in set(doc))
    kept = [unit for unit, n in found.items() if n >= least and len(_ATOM.findall(unit)) > 1]
    return sorted(sorted(kept), key=len, reverse=True)[:most]


def common_words(texts: Sequence[str], *, share: float = 0.1, most: int = 96) -> list[str]:
    """Words that may be glued to their spaces since nobody copies them: Python's keywords, and words of prose."""
    seen: Counter[str] = Counter()  # texts that have the word
    free: Counter[str] = Counter()  # occurrences between spaces or marks
    every: Counter[str] = Counter()
    for text in texts:
        found = [(m[0], m.start(), m.end()) for m in re.finditer(r"[A-Za-z]{2,}", text)]
        seen.update({word for word, _, _ in found})
        for word, start, end in found:
            every[word] += 1
            free[word] += text[start - 1 : start] in ("", " ", "\n") and text[end : end + 1] in (*" \n.,;:!?", "")
    prose = [w for w in seen if seen[w] >= max(2.0, share * len(texts)) and free[w] > 0.9 * every[w]]
    prose = sorted(sorted(prose), key=lambda w: seen[w], reverse=True)[:most]
    return sorted({*prose, *(w for w in keyword.kwlist if w in seen)}, key=lambda w: (-len(w), w))


def _drawn(texts: Iterable[str], most: int) -> list[str]:
    """At most so many of them; which ones follows from their number alone."""
    every = list(texts)
    return every if len(every) <= most else random.Random(0).sample(every, most)


def _merged(doc: list[str], pair: tuple[str, str]) -> list[str]:
    merged: list[str] = []
    at = 0
    while at < len(doc):
        if tuple(doc[at : at + 2]) == pair:
            merged.append(pair[0] + pair[1])
            at += 2
        else:
            merged.append(doc[at])
            at += 1
    return merged


def _literal(phrase: str) -> str:
    """A pattern for exactly this text, not as a part of a longer word."""
    escaped = re.sub(r"([^\w\s])", r"\\\1", phrase)
    return (
        (r"(?<![\p{L}_])" if phrase[0].isalpha() else "") + escaped + (r"(?![\p{L}_])" if phrase[-1].isalpha() else "")
    )


def _vocabulary(counts: "Counter[str]", room: int) -> "BPE":
    """256 bytes; a quarter of the rest merges, which spell what is rare; then whole pieces by the tokens they save."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    if room < len(alphabet):
        raise ConfigError(f"model.vocab leaves {room} tokens, the bytes alone need {len(alphabet)}")
    spelled = Tokenizer(models.BPE())
    spelled.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.BpeTrainer(
        vocab_size=len(alphabet) + (room - len(alphabet)) // 4,
        initial_alphabet=alphabet,
        min_frequency=2,
        show_progress=False,
    )
    words = [piece for piece in counts if piece.isalpha()]
    spelled.train_from_iterator((word for word in words for _ in range(min(counts[word], 50))), trainer)
    model = json.loads(spelled.to_str())["model"]
    vocab: dict[str, int] = model["vocab"]
    saved = {piece: n * (len(piece) - 1) for piece, n in counts.items() if n > 1 and piece not in vocab}
    for piece in sorted(saved, key=lambda p: (-saved[p], p))[: room - len(vocab)]:
        vocab[piece] = len(vocab)
    return models.BPE(vocab=vocab, merges=[tuple(m) for m in model["merges"]], ignore_merges=True)
