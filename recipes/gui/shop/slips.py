"""Ways to go wrong that cost the task: each turns a right plan into a wrong one. Used by the scripted shopper."""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from orchard_cli.task import Task

from .storefront.catalog import STATUSES, Product, catalogue
from .storefront.pages import FIELDS

Plan = list[dict[str, Any]]
CHANGES = ("add", "save", "cancel", "again", "change", "remove", "checkout", "address")


def slipped(task: Task, rng: random.Random, kind: str = "") -> tuple[str, Plan]:
    """(kind, plan): the task's plan with one mistake in it, of the given kind or of one that is possible."""
    plan = [dict(m) for m in task.hidden["plan"]]
    products = catalogue(task.data["shop"]["seed"])
    possible = [name for name, slip in SLIPS.items() if slip(plan, products, random.Random(0)) is not None]
    chosen = kind or rng.choice(possible)
    wrong = SLIPS[chosen](plan, products, rng)
    if wrong is None:
        raise ValueError(f"{task.id} cannot go wrong by `{chosen}`; possible: {possible}")
    return chosen, wrong


def _gives_up(plan: Plan, products: Mapping[str, Product], rng: random.Random) -> Plan | None:
    return [{"do": "answer", "text": "I could not find it."}]


def _forgets(plan: Plan, products: Mapping[str, Product], rng: random.Random) -> Plan | None:
    """Leaves out the last thing that matters."""
    at = _last(plan, CHANGES)
    return None if at is None else [*plan[:at], *plan[at + 1 :]]


def _other_product(plan: Plan, products: Mapping[str, Product], rng: random.Random) -> Plan | None:
    """Takes one of the same kind that was not asked for."""
    at = _last(plan, ("add", "save"))
    if at is None:
        return None
    asked = {m["product"] for m in plan if "product" in m}
    mine = products[plan[at]["product"]]
    same = [p for p in products.values() if p.category == mine.category and p.id not in asked]
    other = rng.choice(same)
    # found by its name: the filters would hide some of them
    kept = [m for m in plan[:at] if m["do"] != "browse"]
    return [*kept, plan[at] | {"product": other.id, "name": other.name}, *plan[at + 1 :]]


def _wrong_number(plan: Plan, products: Mapping[str, Product], rng: random.Random) -> Plan | None:
    at = _last(plan, ("add", "change"))
    if at is None:
        return None
    return [*plan[:at], plan[at] | {"quantity": plan[at]["quantity"] + 1}, *plan[at + 1 :]]


def _misspelt(plan: Plan, products: Mapping[str, Product], rng: random.Random) -> Plan | None:
    at = _last(plan, ("checkout", "address"))
    if at is None:
        return None
    field = rng.choice(sorted(FIELDS))
    given = plan[at]["address"]
    return [*plan[:at], plan[at] | {"address": given | {field: given[field][:-1]}}, *plan[at + 1 :]]


def _wrong_answer(plan: Plan, products: Mapping[str, Product], rng: random.Random) -> Plan | None:
    if not plan or plan[-1]["do"] != "answer":
        return None
    right = plan[-1]["text"]
    if right in STATUSES:
        wrong = rng.choice([s for s in STATUSES if s != right])
    elif right.startswith("$") or right.isdigit():
        wrong = right[:-1] + str((int(right[-1]) + rng.randint(1, 9)) % 10)
    else:
        wrong = next(m["name"] for m in plan if m.get("name") not in (None, right))
    return [*plan[:-1], plan[-1] | {"text": wrong}]


def _extra(plan: Plan, products: Mapping[str, Product], rng: random.Random) -> Plan | None:
    """Does what was asked, and puts one thing more into the cart."""
    asked = {m["product"] for m in plan if "product" in m}
    more = rng.choice([p for p in products.values() if p.id not in asked])
    extra = {"do": "add", "product": more.id, "name": more.name, "quantity": 1}
    at = len(plan) - (bool(plan) and plan[-1]["do"] == "answer")
    return [*plan[:at], extra, *plan[at:]]


def _last(plan: Sequence[Mapping[str, Any]], kinds: Sequence[str]) -> int | None:
    return next((at for at in reversed(range(len(plan))) if plan[at]["do"] in kinds), None)


SLIPS: dict[str, Callable[[Plan, Mapping[str, Product], random.Random], Plan | None]] = {
    "gives_up": _gives_up,
    "forgets": _forgets,
    "other_product": _other_product,
    "wrong_number": _wrong_number,
    "misspelt": _misspelt,
    "wrong_answer": _wrong_answer,
    "extra": _extra,
}
