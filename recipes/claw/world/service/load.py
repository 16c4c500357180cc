"""From a checked world (`spec.checked`) to rows of the state."""

from collections.abc import Callable
from typing import Any

from . import addresses, times
from .state import Row, State

Entry = dict[str, Any]


def load(state: State, world: Entry) -> None:
    """Fill an empty state."""
    state.begin()
    for section in SECTIONS:
        for entry in world[section]:
            put(state, section, entry, world)
    state.commit()
    state.effects = []


def put(state: State, section: str, entry: Entry, world: Entry) -> None:
    """Add the row that an entry describes, or set the row of that id to it."""
    table, made = SECTIONS[section]
    row = made(entry, world)
    if state.find(table, row["id"]):
        state.update(table, row["id"], row)
    else:
        state.insert(table, row)


def _same(entry: Entry, world: Entry) -> Row:
    return entry


def _mail(entry: Entry, world: Entry) -> Row:
    row = {name: entry[name] for name in ("id", "folder", "subject", "body", "at", "unread", "starred", "attachments")}
    return row | {
        "sender": entry["from"],
        "recipients": addresses.several(entry["to"], "to"),
        "cc": addresses.several(entry["cc"], "cc"),
    }


def _event(entry: Entry, world: Entry) -> Row:
    zone = entry["tz"] or world["clock"]["tz"]
    start = times.moment(entry["start"], "start", zone)
    end = times.moment(entry["end"], "end", zone, closing=True)
    people = addresses.several(entry["attendees"], "attendees")
    return entry | {"tz": zone, "start": times.stored(start), "end": times.stored(end), "attendees": people}


def _file(entry: Entry, world: Entry) -> Row:
    return {"id": entry["path"], "text": entry["text"], "broken": entry["broken"]}


def _page(entry: Entry, world: Entry) -> Row:
    return {"id": entry["url"], "title": entry["title"], "text": entry["text"]}


def _order(entry: Entry, world: Entry) -> Row:
    prices = {product["id"]: product["price"] for product in world["products"]}
    return entry | {"total": round(prices[entry["product"]] * entry["quantity"], 2)}


SECTIONS: dict[str, tuple[str, Callable[[Entry, Entry], Row]]] = {
    "mails": ("mail", _mail),
    "events": ("event", _event),
    "contacts": ("contact", _same),
    "files": ("file", _file),
    "notes": ("note", _same),
    "todos": ("todo", _same),
    "accounts": ("account", _same),
    "transactions": ("payment", _same),
    "expenses": ("expense", _same),
    "products": ("product", _same),
    "orders": ("order", _order),
    "corpus": ("page", _page),
}
