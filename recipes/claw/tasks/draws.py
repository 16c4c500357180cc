"""What a family draws by its seed: people, days, amounts. Each rule is one word in the task file.

    who: {pick: people}            day: {day: [1, 20]}        n: {whole: [2, 9]}      code: {digits: 6}
    who: {pick: [Ana, Ben]}        at: {time: [9, 17]}        price: {money: [5, 90]}
    two: {pick: people, n: 2}      late: {shift: "{day}", days: 7}    total: {sum: ["{a}", "{b}"]}
    a: {id: m}                     an id such as m7

A pool gives an element at most once to a task, so that two people are never the same.
"""

import random
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from .fill import fill
from .reading import FieldError, documents

TODAY = date(2026, 3, 2)  # a Monday; the seeded clock of every world stands at its morning
MOST_IDS = 10
POOLS = Path(__file__).with_name("pools.yaml")


@cache
def pools() -> dict[str, list[Any]]:
    """Name → elements that families pick from; people are made whole: name, first, email."""
    (_, found), *_ = documents(POOLS)
    assert isinstance(found, dict)
    return found | {"people": [_person(name) for name in found["people"]]}


def _person(name: str) -> dict[str, str]:
    first, last = name.split(" ", 1)
    ascii_name = name.lower().replace(" ", ".").encode("ascii", "ignore").decode()
    return {"name": name, "first": first, "last": last, "email": f"{ascii_name}@mail.test"}


def draw(rules: Mapping[str, Any], rng: random.Random) -> dict[str, Any]:
    """The values of one task, in the order of the rules. Raises `FieldError` naming the rule."""
    values: dict[str, Any] = {}
    taken: dict[str, list[Any]] = {}
    for name, rule in rules.items():
        try:
            values[name] = _one(rule, values, taken, rng)
        except FieldError:
            raise
        except (KeyError, ValueError, TypeError, IndexError, OverflowError) as error:
            raise FieldError(f"draw.{name}", f"cannot be drawn: {error}") from error
    return values


def _one(rule: Any, values: Mapping[str, Any], taken: dict[str, list[Any]], rng: random.Random) -> Any:
    if not isinstance(rule, dict):
        return fill(rule, values)
    kinds = [word for word in rule if word in RULES]
    if len(kinds) != 1:
        raise ValueError(f"needs one of {', '.join(RULES)}")
    if kinds[0] == "id":
        rule = {"pick": [f"{rule['id']}{i}" for i in range(1, MOST_IDS)]}
    if kinds[0] in ("pick", "id"):
        return _pick(rule, values, taken, rng)
    return RULES[kinds[0]](fill(rule, values), rng)


def _pick(rule: Mapping[str, Any], values: Mapping[str, Any], taken: dict[str, list[Any]], rng: random.Random) -> Any:
    source = rule["pick"]
    if isinstance(source, str) and source not in pools():
        raise ValueError(f"there is no pool `{source}`; there are: {', '.join(pools())}")
    elements = pools()[source] if isinstance(source, str) else fill(source, values)
    before = taken.setdefault(source if isinstance(source, str) else repr(source), [])
    n = int(rule.get("n", 1))
    left = [e for e in elements if e not in before]
    if not 1 <= n <= len(left):
        raise ValueError(f"{n} different ones of {len(left)}")
    chosen = rng.sample(left, n)
    before += chosen
    return chosen if "n" in rule else chosen[0]


def _whole(rule: dict[str, Any], rng: random.Random) -> int:
    low, high = rule["whole"]
    return rng.randrange(int(low), int(high) + 1, int(rule.get("step", 1)))


def _money(rule: dict[str, Any], rng: random.Random) -> float:
    low, high = rule["money"]
    return rng.randint(int(low) * 20, int(high) * 20) / 20


def _day(rule: dict[str, Any], rng: random.Random) -> str:
    low, high = rule["day"]
    return (TODAY + timedelta(days=rng.randint(int(low), int(high)))).isoformat()


def _time(rule: dict[str, Any], rng: random.Random) -> str:
    low, high = rule["time"]
    step = int(rule.get("step", 30))
    minutes = rng.randrange(int(low) * 60, int(high) * 60 + 1, step)
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


def _shift(rule: dict[str, Any], rng: random.Random) -> str:
    """A day, a time, or a day with a time, moved by `days` or `minutes`."""
    text, by = str(rule["shift"]), timedelta(days=int(rule.get("days", 0)), minutes=int(rule.get("minutes", 0)))
    if ":" in text and "-" not in text:
        return (datetime.fromisoformat(f"2026-01-01T{text}") + by).strftime("%H:%M")
    if "T" in text or " " in text:
        return (datetime.fromisoformat(text) + by).strftime("%Y-%m-%dT%H:%M")
    return (date.fromisoformat(text) + by).isoformat()


def _sum(rule: dict[str, Any], rng: random.Random) -> int | float:
    total = round(sum(float(x) for x in rule["sum"]), 2)
    return int(total) if all(isinstance(x, int) for x in rule["sum"]) else total


def _product(rule: dict[str, Any], rng: random.Random) -> int | float:
    first, second = rule["product"]
    return round(first * second, 2)


def _digits(rule: dict[str, Any], rng: random.Random) -> str:
    n = int(rule["digits"])
    return str(rng.randint(10 ** (n - 1), 10**n - 1))


def _weekday(rule: dict[str, Any], rng: random.Random) -> str:
    return f"{date.fromisoformat(rule['weekday'][:10]):%A}"


def _lower(rule: dict[str, Any], rng: random.Random) -> str:
    return str(rule["lower"]).lower()


RULES: dict[str, Any] = {
    "pick": _pick,
    "id": _pick,
    "whole": _whole,
    "money": _money,
    "day": _day,
    "time": _time,
    "shift": _shift,
    "sum": _sum,
    "product": _product,
    "digits": _digits,
    "weekday": _weekday,
    "lower": _lower,
}
