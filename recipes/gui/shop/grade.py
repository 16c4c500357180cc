"""What the shop's state and the answer are worth: 1 if exactly what was asked for happened, else 0.

Every part of the state is compared with how it must be, also those parts that the task does not speak of: a thing
too many is as wrong as a thing too few.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from orchard_cli.errors import GradeError
from orchard_cli.task import Task

from .storefront.catalog import STATUSES, account

PARTS = ("cart", "orders", "favourites", "address", "past")
MOST = 2000  # characters of an answer that are read


def grade(task: Task, state: Mapping[str, Any], answer: str) -> tuple[float, dict[str, Any]]:
    """(reward, details). reward: 1.0 or 0.0. details: `checks` by part, `differs` with what was wanted and found.

    state: as the server wrote it. Raises `GradeError` if it is not such a state.
    """
    wanted, found = expected(task), seen(state)
    checks = {part: wanted[part] == found[part] for part in PARTS}
    details: dict[str, Any] = {"checks": checks}
    details["differs"] = {p: {"wanted": wanted[p], "found": found[p]} for p, same in checks.items() if not same}
    if task.hidden["answer"]:
        checks["answer"] = answers(task.hidden["answer"], answer)
        if not checks["answer"]:
            details["differs"]["answer"] = {"wanted": task.hidden["answer"]["value"], "found": answer[:MOST]}
    return float(all(checks.values())), details


def read_state(text: bytes) -> dict[str, Any]:
    """The state file. Raises `GradeError` if it is not one: the server is at fault, never the policy."""
    try:
        state = json.loads(text)
    except ValueError as error:
        raise _broken(str(error)) from None
    if not isinstance(state, dict):
        raise _broken("it is not an object")
    return state


def expected(task: Task) -> dict[str, Any]:
    """How every part must look in the end, in the form of `seen`."""
    shop, changes = task.data["shop"], task.hidden["changes"]
    customer = account(shop["seed"])
    untouched: dict[str, Any] = {
        "cart": shop["start"].get("cart", {}),
        "orders": [],
        "favourites": shop["start"].get("favourites", []),
        "address": asdict(customer.address),
        "past": {o.number: o.status for o in customer.orders},
    }
    whole = {part: changes.get(part, value) for part, value in untouched.items()}
    whole["past"] = untouched["past"] | changes.get("past", {})
    return _plain(whole)


def seen(state: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a state that count, without what may differ between two right ways (capitals, order)."""
    try:
        past = {o["number"]: o["status"] for o in state["past"]}
        return _plain({**{part: state[part] for part in PARTS}, "past": past})
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise _broken(f"{type(error).__name__}: {error}") from None


def answers(wanted: Mapping[str, Any], said: str) -> bool:
    """Whether `said` gives the wanted answer, and no other one beside it."""
    text, value = " ".join(said[:MOST].split()).lower(), wanted["value"]
    match wanted["kind"]:
        case "status":
            named = {s for s in STATUSES if re.search(rf"\b{s}\b", text)}
            return named == {value} and not re.search(r"\bnot\b|n't\b", text)
        case "money":
            return amounts(text) == {value}
        case "number":
            undated = re.sub(r"\b\d{4}-\d\d-\d\d\b", "", text)
            numbers = {int(n) for n in re.findall(r"(?<![\d.,$])\d{1,9}(?!\d|[.,]\d)", undated)}
            return numbers == {value}
        case "name":
            return value.lower() in text and not any(o.lower() in text for o in wanted["others"])
    raise GradeError(f"no such kind of answer: {wanted['kind']}", code="bad_task", effect="none", retry="never")


def amounts(text: str) -> set[int]:
    """All amounts of money in a text, in cents. Where none has a sign those with cents count, else all numbers."""
    whole, end = r"(\d{1,3}(?:,\d{3})+|\d{1,9})", r"(?!\d|[.,]\d)"
    exact, rough = rf"{whole}\.(\d\d){end}", rf"{whole}(?:\.(\d{{1,2}}))?{end}"
    free = r"(?<![\d.,#])"
    found = re.findall(rf"\$\s?{rough}", text) or re.findall(free + exact, text) or re.findall(free + rough, text)
    return {int(whole.replace(",", "")) * 100 + int(cents.ljust(2, "0")) for whole, cents in found}


def _plain(whole: Mapping[str, Any]) -> dict[str, Any]:
    orders = [
        {"items": _counts(o["items"]), "address": _address(o["address"]), "delivery": str(o["delivery"])}
        for o in whole["orders"]
    ]
    return {
        "cart": _counts(whole["cart"]),
        "orders": sorted(orders, key=json.dumps),
        "favourites": sorted(map(str, whole["favourites"])),
        "address": _address(whole["address"]),
        "past": {str(k): str(v) for k, v in sorted(whole["past"].items())},
    }


def _counts(items: Mapping[str, Any]) -> dict[str, int]:
    return {str(k): int(n) for k, n in sorted(items.items())}


def _address(fields: Mapping[str, str]) -> dict[str, str]:
    return {k: " ".join(fields[k].split()).lower() for k in ("name", "street", "city", "postcode")}


def _broken(why: str) -> GradeError:
    return GradeError(f"the shop's state cannot be read: {why}", code="bad_state", retry="fresh")
