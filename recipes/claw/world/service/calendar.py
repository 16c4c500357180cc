"""The calendar. Times are kept in UTC; each event has the zone in which it was made, lists use the owner's."""

from datetime import datetime, timedelta

from . import addresses, times
from .answer import Refusal
from .scene import Scene, given, listed, matches, needed, same_version
from .state import Row


def calendar_list(at: Scene, start: str, end: str, query: str) -> str:
    first = times.stored(times.moment(start or at.today, "start", at.tz))
    last = times.stored(times.moment(end, "end", at.tz, closing=True)) if end else "9999"
    rows = [row for row in _sorted(at) if row["end"] > first and row["start"] < last]
    rows = [row for row in rows if matches(query, row["title"], row["notes"], row["location"], *row["attendees"])]
    return listed((_line(row, at.tz) for row in rows), none="no events")


def calendar_get(at: Scene, id: str) -> str:
    row = at.state.get("event", id)
    lines = [f"{row['title']} (version {row['version']})", f"when: {times.span(row['start'], row['end'], at.tz)}"]
    if row["tz"] != at.tz:
        lines.append(f"there: {times.span(row['start'], row['end'], row['tz'])} {row['tz']}")
    lines += [f"with: {', '.join(row['attendees'])}"] if row["attendees"] else []
    lines += [f"{name}: {row[name]}" for name in ("location", "notes") if row[name]]
    return "\n".join(lines)


def calendar_free(at: Scene, start: str, end: str, minutes: int, tz: str) -> str:
    first, last = _stretch(start, end, tz or at.tz)
    if not 1 <= minutes <= 10_000:
        raise Refusal("bad_arguments", "minutes must be from 1 to 10000")
    slots, cursor, length = [], first, timedelta(minutes=minutes)
    for row in _sorted(at):
        begins, ends = times.loaded(row["start"]), times.loaded(row["end"])
        if min(begins, last) - cursor >= length:
            slots.append((cursor, min(begins, last)))
        cursor = max(cursor, ends)
    if last - cursor >= length:
        slots.append((cursor, last))
    return listed((times.span(times.stored(a), times.stored(b), tz or at.tz) for a, b in slots), none="no free slot")


def calendar_create(
    at: Scene, title: str, start: str, end: str, tz: str, attendees: str, location: str, notes: str
) -> str:
    needed(title=title)
    first, last = _stretch(start, end, tz or at.tz)
    row = {"title": title, "start": times.stored(first), "end": times.stored(last), "tz": tz or at.tz}
    extra = {"attendees": addresses.several(attendees, "attendees"), "location": location, "notes": notes}
    made = at.state.insert("event", row | extra)
    return f"made {made['id']}: {times.span(made['start'], made['end'], at.tz)}{_overlaps(at, made)}"


def calendar_update(
    at: Scene,
    id: str,
    title: str,
    start: str,
    end: str,
    tz: str,
    attendees: str,
    location: str,
    notes: str,
    version: int,
) -> str:
    old = at.state.get("event", id)
    same_version(old, version)
    zone = tz or old["tz"]
    times.zone(zone)
    first, last = times.loaded(old["start"]), times.loaded(old["end"])
    length = last - first
    first = times.moment(start, "start", zone) if start else first
    if end or start:  # a new start alone keeps the length
        last = times.moment(end, "end", zone, closing=True) if end else first + length
    _in_order(first, last)
    people = addresses.several(attendees, "attendees")
    changes = given(title=title, tz=tz, attendees=people, location=location, notes=notes, start=start, end=end)
    new = at.state.update("event", id, changes | {"start": times.stored(first), "end": times.stored(last)})
    return f"changed {id} (version {new['version']}): {times.span(new['start'], new['end'], at.tz)}{_overlaps(at, new)}"


def calendar_delete(at: Scene, id: str) -> str:
    at.state.delete("event", id)
    return f"cancelled {id}"


def _stretch(start: str, end: str, tz: str) -> tuple[datetime, datetime]:
    times.zone(tz)
    first, last = times.moment(start, "start", tz), times.moment(end, "end", tz, closing=True)
    _in_order(first, last)
    return first, last


def _in_order(first: datetime, last: datetime) -> None:
    if last <= first:
        raise Refusal("bad_arguments", "end must be after start")


def _sorted(at: Scene) -> list[Row]:
    return sorted(at.state.rows("event"), key=lambda row: (row["start"], row["id"]))


def _overlaps(at: Scene, row: Row) -> str:
    others = [o for o in _sorted(at) if o["id"] != row["id"] and o["end"] > row["start"] and o["start"] < row["end"]]
    return f"; overlaps {', '.join(o['id'] for o in others)}" if others else ""


def _line(row: Row, tz: str) -> str:
    people = f" ({', '.join(row['attendees'])})" if row["attendees"] else ""
    place = f" @ {row['location']}" if row["location"] else ""
    return f"{row['id']} {times.span(row['start'], row['end'], tz)} {row['title'][:80]}{people}{place}"
