"""What parameters may hold, and what they may be called."""

import random
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

WORDS = ("fig", "kiwi", "ab", "Ann", "BOB", "cat", "12", "7", "pear", "noon", "Dog", "eve", "plum", "ana", "tot", "OK")
LETTERS = ("a", "e", "n", "o", "p", "k", "t", "i")
PIECES = (*LETTERS, "an", "no", "pe", "B")
FILES = ("core", "calc", "lists", "texts", "shop", "logic")

Maker = Callable[[random.Random], Any]
T = TypeVar("T")


def _whole(rng: random.Random, low: int, high: int) -> int:
    """Like `randint`, at a third of its cost."""
    return low + int(rng.random() * (high - low + 1))


def _one(rng: random.Random, pool: Sequence[T]) -> T:
    return pool[int(rng.random() * len(pool))]


def _integer(rng: random.Random) -> int:
    return _whole(rng, -4, 12)


def _integers(rng: random.Random) -> list[int]:
    return [_integer(rng) for _ in range(_whole(rng, 1, 5))]


def _word(rng: random.Random) -> str:
    return _one(rng, WORDS)


def _words(rng: random.Random) -> list[str]:
    return [_word(rng) for _ in range(_whole(rng, 1, 4))]


def _prices(rng: random.Random) -> dict[str, int]:
    return {k: _integer(rng) for k in rng.sample(LETTERS[:5], _whole(rng, 1, 4))}


def _grid(rng: random.Random) -> list[list[int]]:
    size = _whole(rng, 2, 3)
    return [[_whole(rng, 0, 9) for _ in range(size)] for _ in range(size)]


MAKERS: dict[str, Maker] = {
    "xs": _integers,
    "ys": _integers,
    "ws": _words,
    "w": _word,
    "s": lambda rng: "-".join(_words(rng)),
    "p": lambda rng: _one(rng, PIECES),
    "q": lambda rng: _one(rng, LETTERS),
    "k": lambda rng: _one(rng, LETTERS[:5]),
    "d": _prices,
    "e": _prices,
    "rows": lambda rng: [[_word(rng), _integer(rng)] for _ in range(_whole(rng, 1, 4))],
    "grid": _grid,
    "x": _integer,
    "y": _integer,
    "a": lambda rng: _whole(rng, 1, 12),
    "b": lambda rng: _whole(rng, 1, 12),
    "c": lambda rng: _whole(rng, 1, 12),
    "n": lambda rng: _whole(rng, 1, 6),
    "m": lambda rng: _whole(rng, 1, 4),
    "lo": lambda rng: _whole(rng, 0, 4),
    "hi": lambda rng: _whole(rng, 5, 9),
    "year": lambda rng: _one(rng, (1900, 2000, 2004, 2023, 2100, 1999, 2024, 2400)),
}
POOLS: dict[str, tuple[str, ...]] = {
    "xs": ("xs", "nums"),
    "ys": ("ys", "others"),
    "ws": ("ws", "words"),
    "w": ("w", "word"),
    "s": ("s", "line"),
    "p": ("p", "part"),
    "q": ("q", "other"),
    "k": ("k", "key"),
    "d": ("d", "prices"),
    "e": ("e", "extra"),
    "rows": ("rows", "pairs"),
    "r": ("r", "row"),
    "grid": ("grid", "cells"),
    "x": ("x", "num"),
    "v": ("v", "value"),
    "n": ("n", "limit"),
    "m": ("m", "step"),
    "lo": ("lo", "low"),
    "hi": ("hi", "high"),
    "i": ("i", "pos"),
    "out": ("out", "result"),
    "found": ("found", "hits"),
    "count": ("count", "seen"),
    "total": ("total", "acc"),
}
_NAMES = re.compile(r'"[^"]*"|(?<![\w.])[A-Za-z_]\w*')


def arguments(params: Sequence[str], rng: random.Random) -> tuple[Any, ...]:
    return tuple(MAKERS[name](rng) for name in params)


def surface(text: str, rng: random.Random) -> dict[str, str]:
    """New names for the canonical ones in `text`, all different."""
    found = dict.fromkeys(_NAMES.findall(text))
    taken = {name for name in found if name not in POOLS}
    names: dict[str, str] = {}
    for name in found:
        if name in POOLS:
            free = [choice for choice in POOLS[name] if choice not in taken]
            names[name] = rng.choice(free or [name])
            taken.add(names[name])
    return names


def rename(text: str, names: dict[str, str]) -> str:
    """Whole names only, outside texts in quotes and after no dot."""
    return _NAMES.sub(lambda match: names.get(match[0], match[0]), text)
