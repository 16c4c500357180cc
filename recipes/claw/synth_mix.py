"""New families without a model: two that exist, joined into one request."""

import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

from .tasks.family import Family

Page = dict[str, Any]
_NAME = re.compile(r"\{([a-z_][a-z0-9_]*)")
LINKS = ("Then:", "After that:", "And:")
ONE_OWNER = ("user", "faults", "accounts", "products", "orders", "corpus")  # parts of a world that do not add up


def mix(families: Sequence[Family], rng: random.Random) -> Page:
    """The page of a new family. It may be unsound, where the two get in each other's way: the gate finds out."""
    first, second = rng.sample(list(families), 2)
    a, b = _renamed(first.page, "a"), _renamed(second.page, "b")
    asks = [_answer(page) for page in (a, b)]
    plan = [c for page in (a, b) for c in page["plan"] if not _done(c)]
    answer = "; ".join(text for text in asks if text) or "done"
    page: Page = {
        "family": f"{first.name}__{second.name}",
        "about": f"{first.name}, then {second.name}.",
        "tags": sorted({*first.tags, *second.tags, "multi"}),
        "draw": {**a.get("draw", {}), **b.get("draw", {})},
        "noise": {**a.get("noise", {}), **b.get("noise", {})},
        "world": _worlds(a.get("world", {}), b.get("world", {})),
        "say": [
            f"{x} {link} {y}" for x, link, y in zip(_says(a), ("Then:", "After that:", "And:"), _says(b), strict=False)
        ],
        "want": [*a["want"], *b["want"]],
        "keep": [k for page in (a, b) for k in page.get("keep", []) if "only" not in k],
        "never": [n for page in (a, b) for n in page.get("never", []) if "final" not in n],
        "plan": [*plan, {"done": {"answer": answer}}],
    }
    page["wrong"] = {
        "only_the_first": [*(c for c in a["plan"] if not _done(c)), {"done": {"answer": asks[0] or "done"}}],
        "only_the_second": [*(c for c in b["plan"] if not _done(c)), {"done": {"answer": asks[1] or "done"}}],
    }
    return page


def may_mix(family: Family) -> bool:
    """Families of which one more request in the same task does not change the meaning."""
    return bool(family.page.get("draw")) and not {"faults", "impossible", "ambiguous"} & set(family.tags)


def _renamed(page: Mapping[str, Any], prefix: str) -> Page:
    """Every drawn name with a prefix, so that two pages have none in common."""

    def walk(value: Any) -> Any:
        if isinstance(value, str):
            return _NAME.sub(lambda m: f"{{{prefix}_{m[1]}", value)
        if isinstance(value, dict):
            return {walk(k): walk(v) for k, v in value.items()}
        return [walk(v) for v in value] if isinstance(value, list) else value

    made: Page = walk(dict(page))
    made["draw"] = {f"{prefix}_{name}": rule for name, rule in made.get("draw", {}).items()}
    return made


def _worlds(a: Mapping[str, Any], b: Mapping[str, Any]) -> Page:
    merged: Page = dict(a)
    for name, value in b.items():
        mine = merged.get(name)
        merged[name] = [*mine, *value] if isinstance(mine, list) and name not in ONE_OWNER else value
    return merged


def _says(page: Mapping[str, Any]) -> list[str]:
    return page["say"] if isinstance(page["say"], list) else [page["say"]]


def _done(call: Any) -> bool:
    return isinstance(call, dict) and "done" in call


def _answer(page: Mapping[str, Any]) -> str:
    """What the page's plan answers, if it is asked anything."""
    asked = any("answer" in check for check in page["want"])
    return next((str(c["done"]["answer"]) for c in page["plan"] if _done(c)), "") if asked else ""
