"""Worlds to test with."""

import json
from typing import Any

from orchard_cli.recipes.claw.world import spec
from orchard_cli.recipes.claw.world.service.answer import Answer
from orchard_cli.recipes.claw.world.service.world import World

SMALL: dict[str, Any] = {
    "clock": {"now": "2026-03-02T09:00", "tz": "Europe/Berlin", "tick_s": 30},
    "mails": [
        {
            "from": "Bo Li <bo@work.example>",
            "to": "ana@home.example",
            "subject": "Budget",
            "body": "Please pay the rent.",
            "at": "2026-03-01T08:15",
            "unread": True,
            "attachments": [{"name": "q1.csv", "text": "a,b"}, {"name": "bad.pdf", "broken": True}],
        },
        {"from": "shop@store.example", "subject": "Your order", "body": "It is on its way.", "folder": "archive"},
    ],
    "events": [
        {"title": "Standup", "start": "2026-03-02T10:00", "end": "2026-03-02T10:30", "attendees": "bo@work.example"},
        {
            "title": "Call",
            "start": "2026-03-02T09:00",
            "end": "2026-03-02T10:00",
            "tz": "America/New_York",
        },
    ],
    "contacts": [{"name": "Bo Li", "email": "bo@work.example", "phone": "123"}],
    "files": [{"path": "/reports/q1.txt", "text": "revenue 10"}, {"path": "/old.bin", "broken": True}],
    "notes": [{"title": "Ideas", "text": "one"}],
    "todos": [{"text": "Call Bo", "due": "2026-03-04"}],
    "accounts": [{"id": "main", "name": "Everyday", "balance": 100.5}],
    "transactions": [{"account": "main", "date": "2026-02-27", "amount": -12.3, "payee": "Cafe"}],
    "expenses": [{"date": "2026-02-27", "amount": 12.3, "category": "meals", "merchant": "Cafe"}],
    "products": [{"name": "Desk lamp", "price": 29.9, "stock": 4}],
    "orders": [
        {"product": "p1", "date": "2026-02-20"},
        {"product": "p1", "date": "2026-02-01", "status": "delivered", "quantity": 2},
    ],
    "corpus": [{"url": "https://a.example/rent", "title": "Rent law", "text": "Rent is due on the third day."}],
    "user": {"replies": [{"about": ["transfer", "rent"], "reply": "Yes, pay it."}], "otherwise": "No idea."},
}


def small(**changes: Any) -> dict[str, Any]:
    """A checked small world with other sections than usual."""
    return spec.checked(SMALL | changes, where="small.yaml")


class Played(World):
    """A world with shorter words for a test."""

    def do(self, tool: str, **arguments: Any) -> str:
        """The text of a call that must be done."""
        answer = self.call(tool, arguments)
        assert answer.code == "ok", answer.text
        return answer.text

    def refused(self, tool: str, **arguments: Any) -> Answer:
        """The answer to a call that must not be done, and must leave the state as it was."""
        before = self.state()
        answer = self.call(tool, arguments)
        assert answer.code != "ok", answer.text
        assert self.state() == before
        assert answer.text.startswith(f"{answer.code}: ")
        return answer

    def state(self) -> dict[str, Any]:
        return json.loads(self.export())["state"]

    def row(self, table: str, id: str) -> dict[str, Any]:
        return next(row for row in self.state()[table] if row["id"] == id)

    def last(self) -> dict[str, Any]:
        """The last entry of the audit log."""
        return json.loads(self.export())["audit"][-1]


def played(**changes: Any) -> Played:
    return Played(small(**changes))
