"""The kinds of bugs. A family maps a correct function to one-line edits that may break it.

`FAMILIES[name](text)` yields every `Edit` of that kind in the source of one function (first line `def …`).
Whether an edit really breaks the function is found out by running it (`proof.py`).
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple


class Edit(NamedTuple):
    """Replace text[start:end] by `new`; never spans two lines."""

    start: int
    end: int
    new: str

    def apply(self, text: str) -> str:
        return text[: self.start] + self.new + text[self.end :]


Family = Callable[[str], Iterator[Edit]]
NUMBERS = {"x", "y", "n", "m", "lo", "hi", "a", "b", "c", "i", "v", "count", "total", "best", "year", "K", "J"}
TEXTS = {"w", "s", "p", "q", "k", "c"}
LISTS = {"xs", "ys"}
_CLAIM = r"return (?!not )(?=.*(?: [<>=!]=? | in |\.is|with\())(?!.* (?:if|for) )"  # returns a truth value
_OPERAND = r"[A-Za-z_]\w*(?:\[-?\d\])?|\d+"
_METHODS = (
    "startswith endswith|upper lower title|isupper islower|isdigit isalpha|strip lstrip rstrip|ljust rjust"
    "|removeprefix removesuffix|keys values|find rfind|split rsplit|count find"
)


def _tokens(pattern: str, choices: dict[str, tuple[str, ...]]) -> Family:
    """Edits that replace group 1 of a pattern by each of its choices."""
    compiled = re.compile(pattern)

    def edits(text: str) -> Iterator[Edit]:
        for match in compiled.finditer(text, text.index("\n")):
            for new in choices.get(match[1], ()):
                yield Edit(match.start(1), match.end(1), new)

    return edits


def _rewrites(*rules: tuple[str, str]) -> Family:
    """Edits that replace a whole match by a template."""
    compiled = [(re.compile(pattern), template) for pattern, template in rules]

    def edits(text: str) -> Iterator[Edit]:
        for pattern, template in compiled:
            for match in pattern.finditer(text, text.index("\n")):
                new = match.expand(template)
                if new != match[0]:
                    yield Edit(match.start(), match.end(), new)

    return edits


def _method_choices() -> dict[str, tuple[str, ...]]:
    out: dict[str, tuple[str, ...]] = {}
    for group in _METHODS.split("|"):
        names = group.split()
        for name in names:
            out[name] = (*out.get(name, ()), *(n for n in names if n != name))
    return out


comparison = _tokens(
    r"(?<= )(<=|>=|<|>|==|!=)(?= )",
    {"<": ("<=", ">"), "<=": ("<", ">="), ">": (">=", "<"), ">=": (">", "<="), "==": ("!=",), "!=": ("==",)},
)
arithmetic = _tokens(
    r"(?<= )([-+*]|[-+*]=)(?= )",
    {"+": ("-",), "-": ("+",), "*": ("+",), "+=": ("-=",), "-=": ("+=",), "*=": ("+=",)},
)
logical = _tokens(r"(?<= )(and|or)(?= )", {"and": ("or",), "or": ("and",)})
method = _tokens(r"\.(\w+)(?=\()", _method_choices())
minmax = _tokens(r"\b(max|min|any|all)(?=\()", {"max": ("min",), "min": ("max",), "any": ("all",), "all": ("any",)})
division = _tokens(r"(?<= )(//|%|/)(?= )", {"//": ("/", "%"), "%": ("//",), "/": ("//",)})
index = _tokens(r"(?<=\[)(-?\d)(?=\])", {"0": ("1", "-1"), "1": ("0",), "-1": ("0", "-2"), "-2": ("-1",)})
constant = _tokens(r"\b(K)\b", {"K": ("J",)})
_limits = r"(?:(?<=[<>=] )|(?<=[(\[:])|(?<=, )|(?<=return ))\b(?:n|m|lo|hi|i|K|J)\b(?=[)\]:,\n]| and| or| else| for)"
off_by_one = _rewrites(
    (_limits, r"\g<0> + 1"),
    (_limits, r"\g<0> - 1"),
    (r" [-+] 1\b", ""),
    (r"(?<=range\()1(?=,)", "0"),
    (r"(?<=range\()1(?=,)", "2"),
    (r"(?<=\[)1(?=:)", "2"),
    (r"(?<=enumerate\()(xs|ws)(?=\))", r"\1, 1"),
)
_receivers = "startswith|endswith|count|find|split|strip|lstrip|rstrip|removeprefix|removesuffix"
swap = _rewrites(
    (rf"(?<=\()({_OPERAND}), ({_OPERAND})(?=\))", r"\2, \1"),
    (rf"(?<![-+*/%] )(?<![\w.\]])({_OPERAND}) (%|//|-|/|\+) ({_OPERAND})(?![\w.(\[])", r"\3 \2 \1"),
    (rf"({_OPERAND}) (<=?) ({_OPERAND}) (<=?) ({_OPERAND})", r"\5 \2 \3 \4 \1"),
    (rf"\b({_OPERAND})\.({_receivers})\(([a-z]\w*)\)", r"\3.\2(\1)"),
    (r"(?<!for )\b(p|k|w) (in|not in) (\w+(?:\[\d\])?)", r"\3 \2 \1"),
    (r"(?<=for )(\w+), (\w+)(?= in)", r"\2, \1"),
)


def negation(text: str) -> Iterator[Edit]:
    """A `not` too many or one too few."""
    body = text.index("\n")
    for match in re.finditer(r"\bnot (?!in\b)|\bnot (?=in\b)", text[body:]):
        yield Edit(body + match.start(), body + match.end(), "")
    for match in re.finditer(r"\b(?:if |any\(|all\()(?!not )", text[body:]):
        yield Edit(body + match.end(), body + match.end(), "not ")
    for match in re.finditer(_CLAIM, text[body:]):
        yield Edit(body + match.end(), body + match.end(), "not ")
    loops = {m.end() for m in re.finditer(r"\bfor [\w, ]+? in ", text)}
    for match in re.finditer(r"(?<!not) in ", text[body:]):
        if body + match.end() not in loops:
            yield Edit(body + match.start(), body + match.end(), " not in ")


def variable(text: str) -> Iterator[Edit]:
    """A name read where another of the same kind was meant; what is written to stays as it is."""
    body = text.index("\n")
    used = set(re.findall(r"(?<![\w.\"])[A-Za-z_]\w*", text))
    reads = r"(?<![\w.\"])([A-Za-z_]\w*)\b(?! [-+*/]?= |\.append|\.setdefault|[\w, ]* in |\"|=)"
    for match in re.finditer(reads, text[body:]):
        for kind in (NUMBERS, TEXTS, LISTS):
            if match[1] in kind and match[1] not in ("K", "J"):
                for new in sorted((used & kind) - {match[1], "K", "J"}):
                    yield Edit(body + match.start(), body + match.end(), new)


def early_return(text: str) -> Iterator[Edit]:
    """The last `return` inside the loop before it, or `break` and `continue` mixed up."""
    before, _, last = text[:-1].rpartition("\n")
    if last.startswith("    return ") and re.search(r"\n {8,}.*$", before) and re.search(r"\n    for .*:\n", before):
        at = len(before) + 1
        yield Edit(at, at, "    ")
    for match in re.finditer(r"\b(break|continue)\b", text):
        yield Edit(match.start(), match.end(), "continue" if match[0] == "break" else "break")


def default(text: str) -> Iterator[Edit]:
    """The wrong default value."""
    at = text.find("=K):")
    if 0 <= at < text.index("\n"):
        yield Edit(at + 1, at + 2, "J")


FAMILIES: dict[str, Family] = {
    "comparison": comparison,
    "off_by_one": off_by_one,
    "arithmetic": arithmetic,
    "logical": logical,
    "negation": negation,
    "swap": swap,
    "variable": variable,
    "method": method,
    "minmax": minmax,
    "division": division,
    "index": index,
    "constant": constant,
    "default": default,
    "early_return": early_return,
}
