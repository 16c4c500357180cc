"""Contacts, and the user behind it all: who can be asked, and whose clock it is."""

from . import addresses, times
from .scene import Scene, given, listed, matches, needed, same_version
from .state import Row

FIELDS = ("name", "email", "phone", "company", "notes")


def contacts_search(at: Scene, query: str) -> str:
    rows = [row for row in at.state.rows("contact") if matches(query, *(row[n] for n in FIELDS))]
    return listed(map(_line, rows), none="nobody found")


def contacts_add(at: Scene, name: str, email: str, phone: str, company: str, notes: str) -> str:
    needed(name=name)
    row = {"name": name, "email": addresses.plain(email, "email"), "phone": phone, "company": company, "notes": notes}
    return f"added {at.state.insert('contact', row)['id']}"


def contacts_update(
    at: Scene, id: str, name: str, email: str, phone: str, company: str, notes: str, version: int
) -> str:
    same_version(at.state.get("contact", id), version)
    email = addresses.plain(email, "email") if email else ""
    changes = given(name=name, email=email, phone=phone, company=company, notes=notes)
    return f"changed {_line(at.state.update('contact', id, changes))}"


def contacts_delete(at: Scene, id: str) -> str:
    at.state.delete("contact", id)
    return f"deleted {id}"


def clock_now(at: Scene) -> str:
    day = f"{at.now.astimezone(times.zone(at.tz)):%A}"
    return f"{at.clock.replace('T', ' ')} {day} {at.tz}"


def user_ask(at: Scene, about: str) -> str:
    needed(about=about)
    rules = at.user["replies"]
    reply = next((rule["reply"] for rule in rules if matches(" ".join(rule["about"]), about)), at.user["otherwise"])
    at.state.insert("question", {"at": at.clock, "about": about, "reply": reply}, "ask")
    return f"user: {reply}"


def done(at: Scene, answer: str) -> str:
    at.answer, at.done = answer, True
    return "done"


def _line(row: Row) -> str:
    extra = [row[name] for name in ("phone", "company", "notes") if row[name]]
    return f"{row['id']} {row['name']} <{row['email']}>" + (f" {'; '.join(extra)}" if extra else "")
