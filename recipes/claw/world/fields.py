"""The fields of a world's entries: type, default and what else must hold. `spec` walks them; README.md shows them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .service import addresses, faults, files, money, shop, times
from .service.operations import OPERATIONS, SERVICES

NEEDED = object()
TYPES: dict[str, Any] = {"text": str, "whole": int, "money": (int, float), "flag": bool, "list": list, "map": dict}
EMPTY: dict[str, Any] = {"text": "", "whole": 0, "money": 0.0, "flag": False, "list": [], "map": {}}


@dataclass(frozen=True)
class Field:
    """`check` returns the value as it is kept, or raises `Refusal` or `ValueError` with what is wrong."""

    kind: str
    default: Any
    check: Callable[[Any], Any] | None = None


def text(default: Any = "", check: Callable[[Any], Any] | None = None) -> Field:
    return Field("text", default, check)


def one_of(*words: str) -> Callable[[str], str]:
    def check(value: str) -> str:
        if value not in words:
            raise ValueError(f"must be one of {', '.join(words)}, not {value[:40]!r}")
        return value

    return check


def someone(value: str) -> str:
    addresses.plain(value, "")
    return value


def people(value: str) -> str:
    addresses.several(value, "")
    return value


def whole_day(value: str) -> str:
    return times.day(value, "")


def local(value: str) -> str:
    """A time of the owner's clock, `YYYY-MM-DDTHH:MM`."""
    moment = times.moment(value, "", "UTC")
    if moment.strftime("%H:%M") not in value and not times.DAY.fullmatch(value):
        raise ValueError("is a time of the owner's clock, without an offset")
    return f"{moment:%Y-%m-%dT%H:%M}"


def zone(value: str) -> str:
    if value:
        times.zone(value)
    return value


def word(value: str) -> str:
    if not value or any(letter.isspace() for letter in value) or len(value) > 60:
        raise ValueError("must be one word")
    return value


def id_of(value: str) -> str:
    return word(value) if value else value


def path(value: str) -> str:
    if files.path_of(value, "") != value:
        raise ValueError("must be an absolute path such as /folder/name.txt")
    return value


def above_zero(value: int) -> int:
    if value < 1:
        raise ValueError("must be above 0")
    return value


def not_negative(value: float) -> float:
    if value < 0:
        raise ValueError("must not be below 0")
    return value


def share(value: float) -> float:
    if not 0 <= value <= 0.5:
        raise ValueError("must be from 0 to 0.5")
    return value


def numbers(value: list[Any]) -> list[Any]:
    if not all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in value):
        raise ValueError("must be whole numbers above 0")
    return value


def texts(value: list[Any]) -> list[Any]:
    if not all(isinstance(element, str) and element for element in value):
        raise ValueError("must be texts")
    return value


def tools(value: list[Any]) -> list[Any]:
    for name in texts(value):
        if name not in OPERATIONS and name not in SERVICES:
            raise ValueError(f"there is no tool or service {name[:40]!r}")
    return value


def pattern(value: str) -> str:
    """A tool's name, with `*` for any letters; it must fit something."""
    if not any(faults.fnmatchcase(name, value) for name in OPERATIONS):
        raise ValueError(f"no tool is called {value[:40]!r}")
    return value


ID, COUNT, MONEY = text(check=id_of), Field("whole", 1, above_zero), Field("money", NEEDED)
PRICE, FLAG = Field("money", NEEDED, not_negative), Field("flag", False)
Fields = dict[str, Field]
ATTACHMENT: Fields = {"name": text(NEEDED), "text": text(), "broken": FLAG}
REPLY: Fields = {"about": Field("list", NEEDED, texts), "reply": text(NEEDED)}
FAULT: Fields = {
    "tool": text("*", pattern),
    "calls": Field("list", [], numbers),
    "rate": Field("money", 0.0, share),
    "kind": text(NEEDED, one_of(*faults.KINDS)),
    "retry_after": Field("whole", 30, not_negative),
}
LATER: Fields = {"after": Field("whole", NEEDED, above_zero), "section": text(NEEDED), "row": Field("map", NEEDED)}
MAPS: dict[str, Fields] = {
    "clock": {
        "now": text("2026-03-02T09:00", local),
        "tz": text("Europe/Berlin", zone),
        "tick_s": Field("whole", 30, not_negative),
    },
    "owner": {"name": text("Ana Ruiz"), "email": text("ana@home.example", someone), "address": text("Elm Street 4")},
    "user": {"replies": Field("list", []), "otherwise": text("I cannot say more about that.")},
}
SECTIONS: dict[str, Fields] = {
    "mails": {
        "id": ID,
        "folder": text("inbox", word),
        "from": text(NEEDED, someone),
        "to": text("", people),
        "cc": text("", people),
        "subject": text(),
        "body": text(),
        "at": text("2026-03-01T08:00", local),
        "unread": FLAG,
        "starred": FLAG,
        "attachments": Field("list", []),
    },
    "events": {
        "id": ID,
        "title": text(NEEDED),
        "start": text(NEEDED),
        "end": text(NEEDED),
        "tz": text("", zone),
        "attendees": text("", people),
        "location": text(),
        "notes": text(),
    },
    "contacts": {
        "id": ID,
        "name": text(NEEDED),
        "email": text(NEEDED, someone),
        "phone": text(),
        "company": text(),
        "notes": text(),
    },
    "files": {"path": text(NEEDED, path), "text": text(), "broken": FLAG},
    "notes": {"id": ID, "title": text(NEEDED), "text": text()},
    "todos": {"id": ID, "text": text(NEEDED), "due": text("", whole_day), "done": FLAG},
    "accounts": {"id": text(NEEDED, word), "name": text(), "currency": text("EUR", word), "balance": MONEY},
    "transactions": {
        "id": ID,
        "account": text(NEEDED),
        "date": text(NEEDED, whole_day),
        "amount": MONEY,
        "payee": text(NEEDED),
        "memo": text(),
    },
    "expenses": {
        "id": ID,
        "date": text(NEEDED, whole_day),
        "amount": PRICE,
        "category": text("other", one_of(*money.CATEGORIES)),
        "merchant": text(NEEDED),
        "notes": text(),
        "status": text("draft", one_of(*money.STATUSES)),
    },
    "products": {
        "id": ID,
        "name": text(NEEDED),
        "price": PRICE,
        "stock": Field("whole", 10, not_negative),
        "about": text(),
    },
    "orders": {
        "id": ID,
        "product": text(NEEDED),
        "quantity": COUNT,
        "date": text(NEEDED, whole_day),
        "address": text(),
        "status": text("placed", one_of(*shop.STATUSES)),
    },
    "corpus": {"url": text(NEEDED, word), "title": text(NEEDED), "text": text()},
}
