"""All function bodies: written out, or composed of a shape and a condition, or of a shape and an expression."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

Group = Literal["condition", "expression", "plain"]
MAX_LINES, MAX_WORDS = 7, 44
ORDER = ("s", "p", "q", "k", "ys", "lo", "hi", "m", "n")  # `n` last, where it can have a default
_FLIPPED = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}
_COMPARISON = re.compile(r" (<=|>=|<|>|==|!=) ")
_WORD = re.compile(r"[A-Za-z_]+|\d|[^\w\s]")
_HERE = Path(__file__).parent / "bodies"


@dataclass(frozen=True)
class Body:
    """One correct function. `code` is its indented body over canonical names, with slot `K` for a constant."""

    names: tuple[str, ...]  # what it may be called
    params: tuple[str, ...]
    code: str
    group: Group

    def text(self, *, default: bool = False) -> str:
        """Source with the name `F`; with `default`, the last parameter defaults to slot `K`."""
        params = ", ".join(self.params) + ("=K" if default else "")
        return f"def F({params}):\n{self.code}"

    @property
    def words(self) -> int:
        """Length in words, digits and punctuation marks."""
        return len(_WORD.findall(self.code))


@cache
def bodies() -> tuple[Body, ...]:
    """Every body that is short enough, in a fixed order, without repeats."""
    made = [*_plain(), *_composed("predicates", "shapes"), *_composed("transforms", "maps")]
    short = (b for b in made if b.code.count("\n") < MAX_LINES and b.words <= MAX_WORDS)
    return tuple({body.code: body for body in short}.values())


def _plain() -> Iterator[Body]:
    for names, params, code in _blocks("plain"):
        yield Body(_with_constant(names.split(), code), tuple(params.split(", ")), _indent(code), "plain")


def _composed(parts: str, shapes: str) -> Iterator[Body]:
    group: Group = "condition" if parts == "predicates" else "expression"
    for names, text in _parts(parts):
        for verbs, items, shape in _blocks(shapes):
            made = _fill(shape, items, text)
            if made is not None:
                source, code = made
                called = [f"{v}_{n}" for v, n in zip(verbs.split(), _twice(names.split()), strict=True)]
                params = (source, *(p for p in ORDER if p != source and re.search(rf"\b{p}\b", code)))
                yield Body(_with_constant(called, code), params, _indent(code), group)


def _parts(file: str) -> Iterator[tuple[str, str]]:
    """Conditions or expressions, each also with a constant in place of `n` where `n` is its only limit."""
    for line in _lines(file):
        names, text = line.split(" | ")
        yield names, text
        if re.search(r"\bn\b", text) and not re.search(r"\bm\b", text):
            yield names, re.sub(r"\bn\b", "K", text)


def _fill(shape: str, items: str, text: str) -> tuple[str, str] | None:
    """(first parameter, code), or None where the part does not fit the shape."""
    numeric = not re.search(r"\bw\b", text)
    if items == ("text" if numeric else "number") or (items == "dict" and not numeric):
        return None
    if items in ("dict", "row"):
        item = "v" if items == "dict" else "r[1]" if numeric else "r[0]"
        text = re.sub(r"\b[xw]\b", item, text)
        source = "d" if items == "dict" else "rows"
    else:
        item, source = ("x", "xs") if numeric else ("w", "ws")
        shape = re.sub(r"\bxs\b", source, re.sub(r"\bx\b", item, shape))
    code = re.sub(r"\bNOT\b", lambda _: negate(text), shape)
    code = re.sub(r"\b[PT]\b", lambda _: text, code)
    return (source if re.search(rf"\b{source}\b", code) else item), code


def negate(condition: str) -> str:
    """The opposite of a condition, as a person would write it."""
    if " and " in condition or " or " in condition:
        return f"not ({condition})"
    if condition.startswith("not "):
        return condition[4:]
    if " not in " in condition:
        return condition.replace(" not in ", " in ")
    if " in " in condition:
        return condition.replace(" in ", " not in ")
    found = _COMPARISON.findall(condition)
    if len(found) == 1:
        return condition.replace(f" {found[0]} ", f" {_FLIPPED[found[0]]} ")
    return f"not {condition}"


def _with_constant(names: list[str], code: str) -> tuple[str, ...]:
    return tuple(f"{n}_K" if re.search(r"\bK\b", code) else n for n in names)


def _twice(names: list[str]) -> list[str]:
    return names if len(names) > 1 else names * 2


def _indent(code: str) -> str:
    return "".join(f"    {line}\n" for line in code.splitlines())


def _lines(file: str) -> Iterator[str]:
    for line in (_HERE / f"{file}.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            yield line


def _blocks(file: str) -> Iterator[tuple[str, str, str]]:
    """(names, what stands after the bar, source) of every block."""
    text = (_HERE / f"{file}.txt").read_text(encoding="utf-8").split("\n", 1)[1]
    for block in text.strip().split("\n\n"):
        head, code = block.split("\n", 1)
        names, second = head.split(" | ")
        yield names, second, code
