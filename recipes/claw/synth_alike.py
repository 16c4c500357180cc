"""Is a new task like one that there is, or like one of a benchmark it will be measured with?"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

NEAR = 0.8  # share of three-word runs in common
COPIED = 8  # words in a row that are in a benchmark's task
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Known:
    name: str
    text: str


def near(text: str, known: Iterable[Known]) -> str:
    """The name of a text that this one nearly is, or empty."""
    mine = _runs(text, 3)
    return next((k.name for k in known if _jaccard(mine, _runs(k.text, 3)) >= NEAR), "")


def copied(text: str, benchmark: Iterable[Known]) -> str:
    """The name of a benchmark's task from which `COPIED` words in a row were taken, or empty."""
    mine = _runs(text, COPIED)
    return next((k.name for k in benchmark if mine & _runs(k.text, COPIED)), "")


def _runs(text: str, n: int) -> frozenset[tuple[str, ...]]:
    words = [w.casefold() for w in _WORD.findall(text)]
    return (
        frozenset(tuple(words[i : i + n]) for i in range(max(1, len(words) - n + 1)))
        if len(words) >= n
        else frozenset()
    )


def _jaccard(a: frozenset[tuple[str, ...]], b: frozenset[tuple[str, ...]]) -> float:
    return len(a & b) / len(a | b) if a and b else 0.0
