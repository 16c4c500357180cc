"""Tasks that say nearly the same: exact Jaccard similarity of their words, without comparing every pair.

Two sets with a similarity of at least t share a word among their first |x| - ceil(t·|x|) + 1 words, if words are
sorted with the rarest first (prefix filter; Bayardo et al. 2007, Chaudhuri et al. 2006). Only such pairs are compared.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from orchard_cli.task import Task

Words = frozenset[str]


def words(text: str) -> Words:
    """Lower-case words and numbers; signs do not count."""
    return frozenset(re.findall(r"\w+(?:\.\d+)?", text.lower()))


def similarity(a: Words, b: Words) -> float:
    """Jaccard: shared words of all words; 1 for two empty texts."""
    return len(a & b) / len(a | b) if a or b else 1.0


def distinct(tasks: Sequence[Task], *, least: float = 0.9) -> tuple[list[Task], list[tuple[str, str]]]:
    """(tasks that are unlike every one kept before, in order; pairs (dropped id, id that it is like)). `least`: from
    this similarity on two tasks of one site are the same.
    """
    kept, dropped = [], []
    index = _Index(least, [_said(t) for t in tasks])
    for task in tasks:
        like = index.find(_said(task))
        if like is None:
            kept.append(task)
            index.add(task.id, _said(task))
        else:
            dropped.append((task.id, like))
    return kept, dropped


def unlike(
    tasks: Iterable[Task], others: Sequence[Task], *, least: float = 0.9
) -> tuple[list[Task], list[tuple[str, str]]]:
    """(tasks that no one of `others` resembles; pairs (dropped id, other id)): training without evaluation tasks."""
    wanted = list(tasks)
    index = _Index(least, [_said(t) for t in [*wanted, *others]])
    for other in others:
        index.add(other.id, _said(other))
    found = [(task, index.find(_said(task))) for task in wanted]
    return [t for t, like in found if like is None], [(t.id, like) for t, like in found if like is not None]


def _said(task: Task) -> tuple[str, Words]:
    return str(task.data.get("site", "")), words(task.prompt)


class _Index:
    """Finds a text that is like another one of the same site."""

    def __init__(self, least: float, texts: Iterable[tuple[str, Words]]):
        if not 0 < least <= 1:
            raise ValueError(f"a similarity of {least} is not in (0, 1]")
        self.least = least
        self._often = Counter(word for _, said in texts for word in said)
        self._by_word: dict[tuple[str, str], list[tuple[str, Words]]] = defaultdict(list)
        self._empty: dict[str, str] = {}

    def add(self, id: str, text: tuple[str, Words]) -> None:
        site, said = text
        if not said:
            self._empty.setdefault(site, id)
        for word in self._prefix(said):
            self._by_word[site, word].append((id, said))

    def find(self, text: tuple[str, Words]) -> str | None:
        """The id of a text that is like this one."""
        site, said = text
        if not said:
            return self._empty.get(site)
        compared: set[str] = set()
        for word in self._prefix(said):
            for id, other in self._by_word.get((site, word), ()):
                if id not in compared and similarity(said, other) >= self.least:
                    return id
                compared.add(id)
        return None

    def _prefix(self, said: Words) -> Iterator[str]:
        rarest_first = sorted(said, key=lambda w: (self._often[w], w))
        yield from rarest_first[: len(said) - math.ceil(self.least * len(said) - 1e-9) + 1]
