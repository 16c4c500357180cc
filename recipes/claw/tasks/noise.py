"""Rows of a world that have nothing to do with the request, so that an agent has to look."""

import random
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from .draws import TODAY, pools
from .reading import FieldError

CLOCK = {"now": f"{TODAY.isoformat()}T08:00", "tz": "UTC"}
OWNER = {"name": "Robin Vale", "email": "robin@mail.test", "address": "Elm Street 4"}


def noisy(
    world: dict[str, Any], noise: Mapping[str, Any], values: Mapping[str, Any], rng: random.Random
) -> dict[str, Any]:
    """The world with a clock, an owner, `noise` rows of each kind, and every list in an order of its own."""
    used = repr(values) + repr(world)
    made: dict[str, Any] = {"clock": dict(CLOCK), "owner": dict(OWNER), **world}
    for kind, n in noise.items():
        if kind not in POOLS:
            raise FieldError(f"noise.{kind}", f"there is only {', '.join(POOLS)}")
        if not isinstance(n, int) or not 0 <= n <= 12:
            raise FieldError(f"noise.{kind}", "a number up to 12 is needed")
        made[kind] = [*made.get(kind, ()), *_rows(kind, n, used, rng)]
    for kind in (*POOLS, "expenses", "orders"):
        rows = made.get(kind)
        if isinstance(rows, list):
            rng.shuffle(rows)
            _number(kind, rows, rng)
    return made


def _rows(kind: str, n: int, used: str, rng: random.Random) -> list[dict[str, Any]]:
    def fresh(pool: str) -> list[Any]:
        left = [e for e in pools()[pool] if (e["first"] if isinstance(e, dict) else e) not in used]
        return rng.sample(left, min(n, len(left)))

    days = [(TODAY + timedelta(days=rng.randint(1, 20))).isoformat() for _ in range(n)]
    pool, second = POOLS[kind]
    return [ROWS[kind](*row, rng) for row in zip(fresh(pool), fresh(second) if second else days, strict=False)]


def _mail(person: dict[str, str], topic: str, rng: random.Random) -> dict[str, Any]:
    return {
        "from": f"{person['name']} <{person['email']}>",
        "to": OWNER["email"],
        "subject": topic,
        "body": f"The {topic} can wait until next week.",
        "at": f"2026-02-{rng.randint(10, 28)}T{rng.randint(8, 17):02d}:15",
    }


def _event(title: str, day: str, rng: random.Random) -> dict[str, Any]:
    hour = rng.randint(8, 17)
    return {"title": title, "start": f"{day}T{hour:02d}:00", "end": f"{day}T{hour:02d}:30"}


def _contact(person: dict[str, str], day: str, rng: random.Random) -> dict[str, Any]:
    return {"name": person["name"], "email": person["email"], "phone": f"555{rng.randint(1000, 9999)}"}


def _file(topic: str, day: str, rng: random.Random) -> dict[str, Any]:
    return {"path": f"/{topic}.txt", "text": f"The {topic} is on the list."}


def _note(topic: str, day: str, rng: random.Random) -> dict[str, Any]:
    return {"title": topic, "text": f"The {topic} is on the list."}


def _todo(chore: str, day: str, rng: random.Random) -> dict[str, Any]:
    return {"text": chore, "due": day}


def _product(item: str, day: str, rng: random.Random) -> dict[str, Any]:
    return {"name": item, "price": rng.randint(100, 900) / 10, "stock": rng.randint(1, 9)}


def _payment(shop: str, day: str, rng: random.Random) -> dict[str, Any]:
    day = f"2026-02-{rng.randint(10, 28)}"
    return {"account": "main", "date": day, "amount": -rng.randint(50, 900) / 10, "payee": shop}


POOLS = {
    "mails": ("people", "topics"),
    "events": ("events", ""),
    "contacts": ("people", ""),
    "files": ("topics", ""),
    "notes": ("topics", ""),
    "todos": ("chores", ""),
    "products": ("items", ""),
    "transactions": ("shops", ""),
}
ROWS: dict[str, Any] = {
    "mails": _mail,
    "events": _event,
    "contacts": _contact,
    "files": _file,
    "notes": _note,
    "todos": _todo,
    "products": _product,
    "transactions": _payment,
}


def _number(kind: str, rows: list[dict[str, Any]], rng: random.Random) -> None:
    """Ids where none are given: a letter and a number that says nothing about the order."""
    letter = {"mails": "m", "events": "e", "contacts": "c", "notes": "n", "todos": "t", "products": "p"}.get(kind)
    if not letter:
        return
    taken = {str(r.get("id")) for r in rows}
    free = [f"{letter}{i}" for i in range(1, 40) if f"{letter}{i}" not in taken]
    for row, name in zip(
        [r for r in rows if "id" not in r], rng.sample(free[: max(len(rows), 9 - len(taken))], len(rows)), strict=False
    ):
        row["id"] = name
