"""A world given as data: defaults filled in, everything wrong is named by its field."""

from typing import Any

import pytest
from orchard_cli.recipes.claw.world import spec

from orchard_cli.errors import DataError

from .made import SMALL, small


def test_an_empty_world_is_whole() -> None:
    world = spec.checked({}, where="empty.yaml")
    assert world["mails"] == [] and world["clock"]["tz"] == "Europe/Berlin"
    assert world["owner"]["email"] == "ana@home.example"


def test_what_was_checked_is_left_as_it_is() -> None:
    assert spec.checked(small(), where="again.yaml") == small()


def test_the_data_that_was_given_is_not_changed() -> None:
    data = {"mails": [{"from": "a@b.example", "attachments": [{"name": "x"}]}]}
    spec.checked(data, where="x.yaml")
    assert data == {"mails": [{"from": "a@b.example", "attachments": [{"name": "x"}]}]}


def test_ids_are_made_up_without_taking_one_that_is_given() -> None:
    mails = [{"from": "a@b.example"}, {"id": "m1", "from": "a@b.example"}, {"from": "a@b.example"}]
    world = spec.checked({"mails": mails}, where="x.yaml")
    assert [mail["id"] for mail in world["mails"]] == ["m2", "m1", "m3"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"mail": []}, "world.mail: is not known"),
        ({"mails": {}}, "world.mails: must be a list"),
        ({"mails": [7]}, "world.mails[0]: must be a map"),
        ({"mails": [{"subject": "x"}]}, "world.mails[0].from: is missing"),
        ({"mails": [{"from": "nobody"}]}, "world.mails[0].from: `nobody` is not a mail address"),
        ({"mails": [{"from": "a@b.example", "sbject": ""}]}, "world.mails[0].sbject: is not known"),
        ({"mails": [{"from": "a@b.example", "at": "yesterday"}]}, "world.mails[0].at: `yesterday` is not a time"),
        ({"mails": [{"from": "a@b.example", "body": "\0"}]}, "world.mails[0].body: is not valid text"),
        ({"mails": [{"from": "a@b.example", "body": "\ud800"}]}, "world.mails[0].body: is not valid text"),
        ({"mails": [{"from": "a@b.example", "attachments": [{}]}]}, "mails[0].attachments[0].name: is missing"),
        ({"mails": [{"from": "a@b.example", "unread": "yes"}]}, "mails[0].unread: must be true or false"),
        ({"events": [{"title": "x", "start": "2026-03-02T10:00", "end": "2026-03-02T09:00"}]}, "events[0].end"),
        ({"events": [{"title": "x", "start": "2026-03-29T02:30", "end": "2026-03-29T05:00"}]}, "events[0].start"),
        ({"events": [{"title": "x", "start": "2026-03-29", "end": "2026-03-29", "tz": "Mars/X"}]}, "events[0].tz"),
        ({"clock": {"now": "2026-03-29T02:30"}}, "world.clock.now: 02:30 does not exist on 2026-03-29"),
        ({"clock": {"tick_s": -1}}, "world.clock.tick_s: must not be below 0"),
        ({"files": [{"path": "/a"}, {"path": "/a"}]}, "world.files[1].path: /a is there twice"),
        ({"files": [{"path": "a/../b"}]}, "world.files[0].path: must be an absolute path"),
        ({"accounts": [{"id": "x", "balance": 0.001}]}, "world.accounts[0].balance: has more than two decimals"),
        ({"accounts": [{"id": "x", "balance": True}]}, "world.accounts[0].balance: must be a number"),
        ({"accounts": [{"id": "x", "balance": float("nan")}]}, "world.accounts[0].balance: is out of range"),
        ({"transactions": [{"account": "x", "date": "2026-01-01", "amount": 1, "payee": "y"}]}, "no account x"),
        ({"orders": [{"product": "p9", "date": "2026-01-01"}]}, "world.orders[0].product: there is no product p9"),
        ({"faults": [{"kind": "explodes"}]}, "world.faults[0].kind: must be one of"),
        ({"faults": [{"kind": "timeout", "tool": "mail_burn"}]}, "world.faults[0].tool: no tool is called"),
        ({"faults": [{"kind": "timeout", "calls": [0]}]}, "world.faults[0].calls: must be whole numbers"),
        ({"faults": [{"kind": "timeout", "rate": 0.9}]}, "world.faults[0].rate: must be from 0 to 0.5"),
        ({"tools": ["mial"]}, "world.tools: there is no tool or service 'mial'"),
        ({"later": [{"after": 1, "section": "mail", "row": {}}]}, "world.later[0].section: there is no mail"),
        ({"later": [{"after": 1, "section": "notes", "row": {"title": "x"}}]}, "later[0].row.id: is missing"),
        ({"user": {"replies": [{"about": "x", "reply": "y"}]}}, "world.user.replies[0].about: must be a list"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError) as caught:
        spec.checked({"accounts": SMALL["accounts"]} | change, where="bad.yaml")
    assert str(caught.value).startswith("bad.yaml: world.") and said in str(caught.value)


def test_a_world_that_is_no_map_is_named() -> None:
    with pytest.raises(DataError, match="must be a map"):
        spec.checked([], where="bad.yaml")
