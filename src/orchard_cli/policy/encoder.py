"""Rendered text to ids: which of them are content, and no content that passes for a special token."""

import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..trajectory import Shown

if TYPE_CHECKING:
    from tokenizers import Encoding
    from transformers import PreTrainedTokenizerFast

_MARK = re.compile("\ue000([0-9]+)\ue001")


@dataclass(frozen=True)
class Tokens:
    """ids, and one letter for each: `t` template, `e` environment (content of messages), `p` policy (replies).
    images: the pictures among them, in order.
    """

    ids: tuple[int, ...]
    origins: str
    images: tuple[Shown, ...] = ()

    def __add__(self, other: "Tokens") -> "Tokens":
        return Tokens(self.ids + other.ids, self.origins + other.origins, self.images + other.moved(len(self.ids)))

    def moved(self, by: int) -> tuple[Shown, ...]:
        """The pictures, `by` tokens further on."""
        return tuple(Shown(i.sha, i.start + by, i.length, i.turn) for i in self.images)


class Encoder:
    """A fast tokenizer behind a lock, for it changes state while it encodes.

    Content goes through `guard` before it is rendered: special tokens spelled in it become marks, and `encode`
    turns marks into the ids of that spelling. So nobody can end a turn, or speak for another, from inside a message.
    """

    def __init__(self, tokenizer: "PreTrainedTokenizerFast"):
        self.tokenizer = tokenizer
        self._lock = threading.Lock()
        special = sorted(tokenizer.all_special_tokens, key=len, reverse=True)
        self.special = re.compile("|".join(map(re.escape, special)))
        self._guarded = [*special, "\ue000"]
        self._spelled = re.compile("|".join(map(re.escape, self._guarded)))

    def guard(self, text: str) -> str:
        return self._spelled.sub(lambda found: f"\ue000{self._guarded.index(found[0])}\ue001", text)

    def encode(self, text: str, contents: Sequence[str]) -> Tokens:
        """Tokens of rendered text; `contents` are the guarded parts of it, in order, that are not template."""
        spans = list(self._locate(text, contents))
        ids: list[int] = []
        letters: list[str] = []
        at = 0
        for mark in (*_MARK.finditer(text), None):
            end = mark.start() if mark else len(text)
            if at < end:
                coded = self._code(text[at:end])
                ids += coded.ids
                letters += _letters(coded.offsets, at, spans)
            if mark:
                spelled = self._code(self._guarded[int(mark[1])], literal=True).ids
                ids += spelled
                letters += "e" * len(spelled)
                at = mark.end()
        return Tokens(tuple(ids), "".join(letters))

    def decode(self, ids: Sequence[int]) -> str:
        with self._lock:
            return self.tokenizer.backend_tokenizer.decode(list(ids), skip_special_tokens=False)

    def _code(self, text: str, *, literal: bool = False) -> "Encoding":
        backend = self.tokenizer.backend_tokenizer
        with self._lock:
            backend.encode_special_tokens = literal
            backend.no_truncation()
            return backend.encode(text, add_special_tokens=False)

    def _locate(self, text: str, contents: Sequence[str]) -> Iterator[tuple[int, int]]:
        """Where the contents stand; templates may trim them. A place before the end of a turn is preferred, for a
        role may be called like a content.
        """
        at = 0
        for content in contents:
            wanted = content if content in text else content.strip()
            start = first = text.find(wanted, at) if wanted else -1
            while start >= 0 and not self.special.match(text[start + len(wanted) :][:64].lstrip()):
                start = text.find(wanted, start + 1)
            start = first if start < 0 else start
            if start >= 0:
                at = start + len(wanted)
                yield start, at


def _letters(offsets: Sequence[tuple[int, int]], base: int, spans: Sequence[tuple[int, int]]) -> list[str]:
    """`e` for each token that touches a span, else `t`. Both run in order; offsets count from `base`."""
    letters, k = [], 0
    for start, end in offsets:
        while k < len(spans) and spans[k][1] <= base + start:
            k += 1
        touches = k < len(spans) and base + end > spans[k][0] and base + start < spans[k][1]
        letters.append("e" if touches else "t")
    return letters
