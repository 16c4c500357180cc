"""Does a row hold what a task asks for? Words compare without regard to case and spacing, numbers by value.

to: ana@mail.test                 equal
body: {contains: [Friday, 10:00]}     all of them occur, as whole words
body: {any: [cannot, not possible]}   one of them occurs
title: {not: [draft]}                 none of them occurs
amount: {min: 5, max: 10}
cc: {empty: true}
"""

import re
from collections.abc import Mapping
from typing import Any

OPERATORS = ("is", "contains", "any", "not", "min", "max", "empty", "in", "longer")
CENT = 0.005


def normal(value: Any) -> str:
    """One spelling of a text: lower case, single spaces, plain quotes and dashes."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        value = f"{value:.2f}"
    folded = str(value).casefold().translate(str.maketrans("’‘“”–—\u00a0", "''\"\"-- "))
    return " ".join(folded.split())


def equal(found: Any, wanted: Any) -> bool:
    """Equal as a person would say; a list, or addresses with commas between, equal in any order."""
    if isinstance(wanted, list):
        parts = found if isinstance(found, list) else [p for p in str(found).split(",") if p.strip()]
        return sorted(map(normal, parts)) == sorted(map(normal, wanted))
    if isinstance(wanted, (int, float)) and not isinstance(wanted, bool):
        number = _number(found)
        return number is not None and abs(number - wanted) < CENT
    if isinstance(found, list):
        return [normal(f) for f in found] == [normal(wanted)]
    return normal(found) == normal(wanted)


def occurs(word: Any, text: Any) -> bool:
    """`word` stands in `text` on its own: `5` is not in `15`, nor in `5.5`; `12.50` is in `12.5` and the reverse."""
    number = _number(word) if isinstance(word, (int, float)) else None
    if number is not None:
        return any(abs(n - number) < CENT for n in numbers(str(text)))
    inner = re.escape(normal(word))
    return re.search(rf"(?<![\w]){inner}(?![\w])", normal(text)) is not None


def numbers(text: str) -> list[float]:
    """Numbers that stand in a text; `1,250.50` is one of them, the parts of a date or a time are not."""
    plain = re.sub(r"\b\d{4}-\d\d-\d\d(?:T[\d:]+)?\b|\b\d{1,2}:\d\d\b", " ", text)
    plain = re.sub(r"(?<=\d),(?=\d{3}\b)", "", plain)
    return [float(n) for n in re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w])", plain)]


def fits(found: Any, wanted: Any) -> bool:
    """Whether one value is what is wanted: a value to be equal to, or operators that must all hold."""
    if not isinstance(wanted, Mapping):
        return equal(found, wanted)
    return all(_operator(name, found, value) for name, value in wanted.items())


def row_fits(row: Mapping[str, Any], where: Mapping[str, Any]) -> bool:
    return all(fits(row.get(field), wanted) for field, wanted in where.items())


def _operator(name: str, found: Any, value: Any) -> bool:
    words = value if isinstance(value, list) else [value]
    text = " , ".join(map(str, found)) if isinstance(found, list) else ("" if found is None else found)
    if name == "is":
        return equal(found, value)
    if name == "in":
        return any(equal(found, word) for word in words)
    if name == "contains":
        return all(occurs(word, text) for word in words)
    if name == "any":
        return any(occurs(word, text) for word in words)
    if name == "not":
        return not any(occurs(word, text) for word in words)
    if name == "empty":
        return (found in (None, "", [], 0)) == (normal(value) in ("yes", "true"))
    if name == "longer":
        return len(str(text)) >= int(value)
    number = _number(found)
    if number is None:
        return False
    return number >= float(value) - CENT if name == "min" else number <= float(value) + CENT


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or value is None:
        return None
    try:
        return float(str(value).replace(",", ""))
    except ValueError:
        return None
