"""Calls against the world: whatever is given, an answer with a code; the state whole; every call in the audit log."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from orchard_cli.recipes.claw.world.service import faults
from orchard_cli.recipes.claw.world.service.answer import STATUS
from orchard_cli.recipes.claw.world.service.operations import OPERATIONS
from orchard_cli.recipes.claw.world.service.world import World

from .made import played, small

RATE_LIMITED = [{"tool": "mail_list", "calls": [1, 3], "kind": "rate_limited", "retry_after": 7}]


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("mail_lst", {}, "unknown_tool: no tool mail_lst; mail_list?"),
        (None, {}, "unknown_tool: no tool None"),
        ("mail_list", [], "bad_arguments: the arguments must be an object"),
        ("mail_list", {"nmae": 1}, "bad_arguments: no argument nmae; mail_list takes folder, query, unread, limit"),
        ("mail_list", {"limit": "5"}, "bad_arguments: limit must be an integer"),
        ("mail_list", {"limit": True}, "bad_arguments: limit must be an integer"),
        ("mail_list", {"limit": -1}, "bad_arguments: limit must not be below 0"),
        ("mail_list", {"limit": 10**30}, "bad_arguments: limit is out of range"),
        ("mail_list", {"unread": 1}, "bad_arguments: unread must be a boolean"),
        ("mail_read", {}, "bad_arguments: mail_read needs id"),
        ("mail_read", {"id": None}, "bad_arguments: id must be a string"),
        ("mail_read", {"id": "a\0"}, "bad_arguments: id holds a NUL character"),
        ("mail_read", {"id": "\ud800"}, "bad_arguments: id is not valid text"),
        (
            "mail_send",
            {"to": "a@b.example", "subject": "", "body": "x" * 100_001},
            "bad_arguments: body is longer than",
        ),
        ("bank_transfer", {"account": "main", "payee": "x", "amount": float("nan")}, "bad_arguments: amount is out of"),
    ],
)
def test_what_is_wrong_with_a_call_is_said_and_kept(tool: Any, arguments: Any, said: str) -> None:
    world = played()
    before = world.state()
    answer = world.call(tool, arguments)
    assert answer.text.startswith(said) and world.state() == before
    last = world.last()
    assert (last["code"], last["effects"], last["tool"]) == (answer.code, [], str(tool))


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=30)
    | st.sampled_from(["m1", "e1", "/a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
WORLD = World(small())


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_no_arguments_break_the_world(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(set(OPERATIONS) - {"done"})))
    names = [argument.name for argument in OPERATIONS[name].arguments] + ["else"]
    arguments = data.draw(st.dictionaries(st.sampled_from(names), VALUES, max_size=5))
    before = json.loads(WORLD.export())["state"]
    answer = WORLD.call(name, arguments)
    assert answer.code in set(STATUS) - {"internal_error"}
    after = json.loads(WORLD.export())
    if answer.code != "ok":
        assert after["state"] == before
    assert after["audit"][-1]["code"] == answer.code


def test_a_defect_of_ours_is_no_answer_and_leaves_no_trace_in_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(scene: Any) -> str:
        scene.state.insert("note", {"title": "half done"})
        raise KeyError("x")

    monkeypatch.setitem(__import__("sys").modules[World.__module__].DOES, "clock_now", broken)
    world = played()
    assert world.refused("clock_now").text == "internal_error: KeyError"
    assert world.do("notes_list") == "n1 Ideas"


def test_the_audit_log_has_every_call_with_its_effects() -> None:
    world = played()
    world.call("mail_list", {}, face="native")
    world.call("bank_transfer", {"account": "main", "payee": "Bo", "amount": "12.50"}, face="cli")
    looked, paid = json.loads(world.export())["audit"]
    assert (looked["seq"], looked["at"], looked["effects"]) == (1, "2026-03-02T09:00:30", [])
    assert (paid["at"], paid["face"], paid["arguments"]["amount"]) == ("2026-03-02T09:01:00", "cli", 12.5)
    assert [(e["kind"], e["what"]) for e in paid["effects"]] == [("update", "account:main"), ("pay", "payment:b2")]
    assert (paid["effects"][0]["before"]["balance"], paid["effects"][0]["after"]["balance"]) == (100.5, 88.0)
    assert paid["effects"][1]["before"] is None


def test_the_same_deeds_leave_the_same_bytes() -> None:
    deeds = [
        ("mail_read", {"id": "m1"}),
        ("todo_add", {"text": "x"}),
        ("nonsense", {"a": [1]}),
        ("done", {"answer": "é"}),
    ]
    exports = []
    for _ in range(2):
        world = played(faults=[{"tool": "*", "rate": 0.5, "kind": "unavailable"}], seed=4)
        for tool, arguments in deeds:
            world.call(tool, arguments)
        exports.append(world.export())
    assert exports[0] == exports[1]


def test_words_of_a_command_line_get_their_types() -> None:
    world = played()
    assert world.call("mail_list", {"unread": "true", "limit": "1"}, face="cli").code == "ok"
    assert world.call("mail_list", {"limit": "many"}, face="cli").text == "bad_arguments: limit must be an integer"


def test_a_rate_limited_call_does_nothing_and_can_be_made_again() -> None:
    world = played(faults=RATE_LIMITED)
    said = world.refused("mail_list")
    assert (said.code, said.status) == ("rate_limited", 429) and "try again in 7 s" in said.text
    assert world.last()["fault"] == "rate_limited"
    world.do("mail_list")
    world.refused("mail_list")
    world.do("mail_list")


def test_a_lost_answer_has_happened_and_a_timeout_has_not() -> None:
    faults = [
        {"tool": "todo_add", "calls": [1], "kind": "lost_answer"},
        {"tool": "todo_add", "calls": [2], "kind": "timeout"},
    ]
    world = played(faults=faults)
    texts = [world.call("todo_add", {"text": "x"}).text for _ in range(2)]
    assert texts[0] == texts[1] == "timeout: no answer came in time"
    assert len(world.state()["todo"]) == 2
    log = json.loads(world.export())["audit"]
    assert [(entry["fault"], len(entry["effects"])) for entry in log] == [("lost_answer", 1), ("timeout", 0)]


def test_a_stale_answer_is_that_of_the_start_and_says_so() -> None:
    world = played(faults=[{"tool": "todo_*", "calls": [1, 3], "kind": "stale"}])
    world.do("todo_add", text="new")  # what writes is never stale
    assert world.do("todo_list") == "t1 open due 2026-03-04: Call Bo\n[an old copy; ask again for the newest]"
    assert world.do("todo_list") == "t1 open due 2026-03-04: Call Bo\nt2 open: new"
    assert world.last()["fault"] == ""


def test_faults_by_rate_depend_on_the_seed_and_never_hit_twice_in_a_row() -> None:
    def hits(seed: int) -> list[bool]:
        plan = faults.Plan([{"tool": "mail_*", "rate": 0.5, "calls": [], "kind": "timeout"}], seed)
        return [plan.next("mail_list") is not None for _ in range(60)]

    assert hits(1) == hits(1) != hits(2)
    assert 10 < sum(hits(1)) <= 30
    assert not any(a and b for a, b in zip(hits(1), hits(1)[1:], strict=False))


def test_asking_the_user_and_ending_never_fail() -> None:
    world = played(faults=[{"tool": "*", "calls": [1, 2, 3], "kind": "unavailable"}])
    for tool, arguments in (("clock_now", {}), ("user_ask", {"about": "x"}), ("done", {"answer": ""})):
        assert world.call(tool, arguments).code == "ok"


def test_others_act_after_the_named_call() -> None:
    mail = {"id": "m9", "from": "c@d.example", "subject": "New"}
    event = {"id": "e1", "title": "Moved", "start": "2026-03-02T11:00", "end": "2026-03-02T12:00"}
    later = [{"after": 1, "section": "mails", "row": mail}, {"after": 2, "section": "events", "row": event}]
    world = played(later=later)
    assert "m9" not in world.do("mail_list")
    assert "m9" in world.do("mail_list")
    assert world.refused("calendar_update", id="e1", title="Mine", version=1).code == "conflict"
    assert world.row("event", "e1")["title"] == "Moved"


def test_a_tool_that_this_world_does_not_offer_is_unknown() -> None:
    world = played(tools=["calendar"])
    assert world.refused("mail_list").code == "unknown_tool"
    world.do("calendar_list")


def test_an_agent_that_never_stops_calling_is_stopped() -> None:
    world = played()
    for _ in range(2000):
        world.call("clock_now", {})
    assert world.call("clock_now", {}).text == "refused: too many calls"
    assert len(json.loads(world.export())["audit"]) == 2000
