"""A world as plain data, checked: every field has its type, times and addresses can be read, ids are there and unique.

`checked` fills in every default, so that what is started, exported and graded comes from one form. Errors are
`DataError`s that name the file and the field. The shape is in README.md.
"""

import copy
from typing import Any

from orchard_cli.errors import DataError

from . import fields
from .fields import NEEDED, TYPES, Field, Fields
from .service import load, times
from .service.answer import Refusal
from .service.state import NUMBERED

Entry = dict[str, Any]
WORDS = {"whole": "a whole number", "money": "a number", "flag": "true or false", "list": "a list", "map": "a map"}
LISTS = {"faults": fields.FAULT, "later": fields.LATER}
PLAIN = {"seed": Field("whole", 0), "tools": Field("list", [], fields.tools)}
FOREIGN = {"account": "accounts", "product": "products"}
MOST_ENTRIES = 5000


class _Wrong(Exception):
    def __init__(self, field: str, what: str):
        super().__init__(f"{field}: {what}")


def checked(data: Any, where: str) -> Entry:
    """The world with every default filled in. `where` names the file. Raises `DataError`."""
    try:
        return _world(data)
    except _Wrong as wrong:
        hint = "recipes/claw/world/README.md shows the shape of a world"
        raise DataError(f"{where}: world.{wrong}", hint=hint) from None


def _world(data: Any) -> Entry:
    known = {**PLAIN, **fields.MAPS, **fields.SECTIONS, **LISTS}
    _names(data, list(known), "")
    world: Entry = {name: _value(data.get(name), rule, name) for name, rule in PLAIN.items()}
    for name, rules in fields.MAPS.items():
        world[name] = _entry(data.get(name, {}), rules, name)
    _exists(world["clock"])
    world["user"]["replies"] = _entries(world["user"]["replies"], fields.REPLY, "user.replies")
    for name, rules in (fields.SECTIONS | LISTS).items():
        world[name] = _entries(data.get(name, []), rules, name)
    for name in fields.SECTIONS:
        _numbered(name, world[name])
        for at, entry in enumerate(world[name]):
            _sound(world, name, entry, f"{name}[{at}]")
    for at, change in enumerate(world["later"]):
        _later(world, change, f"later[{at}]")
    return world


def _exists(clock: Entry) -> None:
    """The clock does not start in an hour that is skipped."""
    try:
        times.moment(clock["now"], "now", clock["tz"])
    except Refusal as refusal:
        raise _Wrong("clock.now", _said(refusal)) from None


def _names(data: Any, known: list[str], where: str) -> None:
    if not isinstance(data, dict):
        raise _Wrong(where, f"must be a map, not {_shown(data)}")
    for name in data:
        if name not in known:
            raise _Wrong(f"{where}.{name}".lstrip("."), f"is not known; there are: {', '.join(known)}")


def _entries(data: Any, rules: Fields, where: str) -> list[Entry]:
    if not isinstance(data, list):
        raise _Wrong(where, f"must be a list, not {_shown(data)}")
    if len(data) > MOST_ENTRIES:
        raise _Wrong(where, f"has more than {MOST_ENTRIES} entries")
    return [_entry(entry, rules, f"{where}[{at}]") for at, entry in enumerate(data)]


def _entry(data: Any, rules: Fields, where: str) -> Entry:
    _names(data, list(rules), where)
    return {name: _value(data.get(name), rule, f"{where}.{name}") for name, rule in rules.items()}


def _value(value: Any, rule: Field, where: str) -> Any:
    if value is None:
        if rule.default is NEEDED:
            raise _Wrong(where, "is missing")
        return copy.copy(rule.default)
    if isinstance(value, bool) != (rule.kind == "flag") or not isinstance(value, TYPES[rule.kind]):
        raise _Wrong(where, f"must be {WORDS.get(rule.kind, rule.kind)}, not {_shown(value)}")
    if isinstance(value, str) and not _is_text(value):
        raise _Wrong(where, "is not valid text")
    if rule.kind in ("whole", "money") and not abs(value) <= 1_000_000_000:
        raise _Wrong(where, "is out of range")
    if rule.kind == "money" and rule is not fields.FAULT["rate"] and abs(value - round(value, 2)) > 1e-6:
        raise _Wrong(where, "has more than two decimals")
    try:
        return rule.check(value) if rule.check else value
    except (Refusal, ValueError) as error:
        raise _Wrong(where, _said(error)) from None


def _numbered(section: str, entries: list[Entry]) -> None:
    """Ids for those without, by their place; all are unique."""
    key = _key(section)
    prefix = NUMBERED.get(load.SECTIONS[section][0], "")
    used = {entry[key] for entry in entries}
    for at, entry in enumerate(entries):
        number = at + 1
        while not entry[key]:
            name = f"{prefix}{number}"
            entry[key] = "" if name in used else name
            number += 1
        used.add(entry[key])
    seen: set[str] = set()
    for at, entry in enumerate(entries):
        if entry[key] in seen:
            raise _Wrong(f"{section}[{at}].{key}", f"{entry[key]} is there twice")
        seen.add(entry[key])


def _sound(world: Entry, section: str, entry: Entry, where: str) -> None:
    """What one field alone cannot show."""
    if section == "mails":
        entry["attachments"] = _entries(entry["attachments"], fields.ATTACHMENT, f"{where}.attachments")
    if section == "events":
        _in_order(entry, entry["tz"] or world["clock"]["tz"], where)
    for field, other in FOREIGN.items():
        if field in entry and entry[field] not in {row["id"] for row in world[other]}:
            raise _Wrong(f"{where}.{field}", f"there is no {field} {entry[field]}")


def _in_order(event: Entry, tz: str, where: str) -> None:
    try:
        start = times.moment(event["start"], "start", tz)
        end = times.moment(event["end"], "end", tz, closing=True)
    except Refusal as refusal:
        field, _, what = refusal.answer.text.removeprefix("bad_arguments: ").partition(": ")
        raise _Wrong(f"{where}.{field}", what) from None
    if end <= start:
        raise _Wrong(f"{where}.end", "must be after start")


def _later(world: Entry, change: Entry, where: str) -> None:
    """What others do after the n-th call: a whole entry, new or in place of the one of its id."""
    section = change["section"]
    if section not in fields.SECTIONS:
        raise _Wrong(f"{where}.section", f"there is no {section}; there are: {', '.join(fields.SECTIONS)}")
    change["row"] = _entry(change["row"], fields.SECTIONS[section], f"{where}.row")
    if not change["row"][_key(section)]:
        raise _Wrong(f"{where}.row.id", "is missing")
    _sound(world, section, change["row"], f"{where}.row")


def _key(section: str) -> str:
    return next(iter(fields.SECTIONS[section]))


def _said(error: Exception) -> str:
    text = error.answer.text if isinstance(error, Refusal) else str(error)
    return text.removeprefix("bad_arguments: ").removeprefix("now: ").removeprefix("tz: ").removeprefix(": ")


def _shown(value: Any) -> str:
    return f"{type(value).__name__} {str(value)[:40]!r}"


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in value
