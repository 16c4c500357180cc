"""What each service does, in a world in memory."""

import pytest

from .made import Played, played


@pytest.fixture
def world() -> Played:
    return played()


def test_mail_is_listed_read_and_answered(world: Played) -> None:
    assert world.do("mail_list") == "m1 unread 03-01 08:15 Bo Li <bo@work.example>: Budget [2 attached]"
    assert world.do("mail_read", id="m1").endswith("attachments: q1.csv, bad.pdf\n\nPlease pay the rent.")
    assert world.do("mail_reply", id="m1", body="Done.") == "sent m3 to bo@work.example"
    sent = world.row("mail", "m3")
    assert (sent["subject"], sent["folder"], sent["reply_to"]) == ("Re: Budget", "sent", "m1")
    assert [effect["kind"] for effect in world.last()["effects"]] == ["send"]


def test_mail_is_found_by_all_words_whatever_their_case(world: Played) -> None:
    assert world.do("mail_list", query="RENT budget").startswith("m1")
    assert world.do("mail_list", query="rent lamp") == "no mail matches"
    assert world.do("mail_list", folder="spam") == "folder spam is empty; there are: archive, inbox"


def test_a_giant_mail_comes_in_pages() -> None:
    world = played(mails=[{"from": "a@b.example", "body": "é" * 4500}])
    assert world.do("mail_read", id="m1").endswith("[page 1 of 3]")
    assert "é" * 500 + "\n[page 3 of 3]" in world.do("mail_read", id="m1", page=3)
    assert world.refused("mail_read", id="m1", page=4).code == "bad_arguments"


def test_attachments_travel_with_mails_and_files(world: Played) -> None:
    world.do("mail_attachment", id="m1", name="q1.csv", path="/in/q1.csv")
    assert world.do("files_read", path="/in/q1.csv") == "a,b"
    world.do("mail_send", to="Cy <CY@x.example>", subject="s", body="b", attach="/in/q1.csv, /reports/q1.txt")
    sent = world.row("mail", "m3")
    assert sent["recipients"] == ["cy@x.example"]
    assert [part["name"] for part in sent["attachments"]] == ["q1.csv", "q1.txt"]
    world.do("mail_forward", id="m1", to="cy@x.example")
    assert [part["name"] for part in world.row("mail", "m4")["attachments"]] == ["q1.csv", "bad.pdf"]


def test_broken_attachments_and_files_are_refused(world: Played) -> None:
    assert world.refused("mail_attachment", id="m1", name="bad.pdf").code == "refused"
    assert world.refused("mail_attachment", id="m1", name="none.txt").code == "not_found"
    assert world.refused("files_read", path="/old.bin").code == "refused"


def test_a_mail_with_one_bad_address_or_file_is_not_sent_to_anybody(world: Played) -> None:
    assert "`cy`" in world.refused("mail_send", to="bo@work.example, cy", subject="s", body="b").text
    assert world.refused("mail_send", to="bo@work.example", subject="s", body="b", attach="/no").code == "not_found"
    assert world.refused("mail_send", to=" ", subject="s", body="b").code == "bad_arguments"


def test_mails_are_moved_marked_and_deleted(world: Played) -> None:
    world.do("mail_move", id="m1", folder="Trash")
    world.do("mail_mark", id="m1", flag="read")
    assert (world.row("mail", "m1")["folder"], world.row("mail", "m1")["unread"]) == ("trash", False)
    world.do("mail_delete", id="m1")
    assert world.refused("mail_read", id="m1").code == "not_found"
    assert world.refused("mail_move", id="m2", folder="sent").code == "refused"
    world.do("mail_send", to="a@b.example", subject="", body="x")
    assert world.row("mail", "m3"), "the id of a mail that is gone is not used again"


def test_events_are_shown_in_the_owners_zone(world: Played) -> None:
    assert world.do("calendar_list") == (
        "e1 2026-03-02 10:00-10:30 Standup (bo@work.example)\ne2 2026-03-02 15:00-16:00 Call"
    )
    assert "there: 2026-03-02 09:00-10:00 America/New_York" in world.do("calendar_get", id="e2")
    assert world.do("calendar_list", start="2026-03-03", end="2026-03-04") == "no events"


def test_a_day_with_a_clock_change_has_23_or_25_hours(world: Played) -> None:
    for day, hours in (("2026-03-29", 23), ("2026-10-25", 25)):
        made = world.do("calendar_create", title="All day", start=day, end=day).split()[1].rstrip(":")
        row = world.row("event", made)
        assert (int(row["end"][8:10]) * 24 + int(row["end"][11:13])) - (
            int(row["start"][8:10]) * 24 + int(row["start"][11:13])
        ) == hours


def test_an_hour_that_does_not_exist_is_refused_and_an_offset_settles_the_one_that_comes_twice(world: Played) -> None:
    said = world.refused("calendar_create", title="x", start="2026-03-29T02:30", end="2026-03-29T04:00")
    assert "02:30 does not exist on 2026-03-29 in Europe/Berlin" in said.text
    world.do("calendar_create", title="x", start="2026-10-25T02:30+01:00", end="2026-10-25T04:00")
    assert world.row("event", "e3")["start"] == "2026-10-25T01:30Z"
    assert world.refused("calendar_create", title="x", start="2026-01-01", end="2026-01-02", tz="No/Zone").code


def test_an_event_that_is_moved_keeps_its_length_and_tells_of_overlaps(world: Played) -> None:
    assert world.do("calendar_update", id="e1", start="2026-03-02T15:45") == (
        "changed e1 (version 2): 2026-03-02 15:45-16:15; overlaps e2"
    )
    assert world.refused("calendar_update", id="e1", end="2026-03-02T15:00").code == "bad_arguments"
    assert world.refused("calendar_update", id="e1").text == (
        "bad_arguments: nothing to change: give one of title, tz, attendees, location, notes, start, end"
    )


def test_a_change_that_was_made_meanwhile_is_not_overwritten(world: Played) -> None:
    world.do("calendar_update", id="e1", title="New", version=1)
    assert world.refused("calendar_update", id="e1", title="Newer", version=1).code == "conflict"
    world.do("notes_write", id="n1", title="Ideas", text="two", version=1)
    assert world.refused("notes_write", id="n1", title="Ideas", text="three", version=1).code == "conflict"
    world.do("files_write", path="/reports/q1.txt", text="x", version=1)
    assert world.refused("files_write", path="/reports/q1.txt", text="y", version=1).code == "conflict"
    world.do("contacts_update", id="c1", phone="9")
    assert world.refused("contacts_update", id="c1", phone="8", version=1).code == "conflict"


def test_free_time_lies_between_events(world: Played) -> None:
    asked = {"start": "2026-03-02T09:00", "end": "2026-03-02T17:00"}
    assert world.do("calendar_free", **asked, minutes=60).split("\n") == [
        *("2026-03-02 09:00-10:00", "2026-03-02 10:30-15:00", "2026-03-02 16:00-17:00")
    ]
    assert world.do("calendar_free", **asked, minutes=300) == "no free slot"


def test_files_are_written_moved_shared_and_deleted(world: Played) -> None:
    world.do("files_write", path="notes/a.txt", text="one")
    world.do("files_write", path="/notes/a.txt", text=" two", append=True)
    assert world.do("files_read", path="/notes/./a.txt") == "one two"
    world.do("files_share", path="/notes/a.txt", person="bo@work.example")
    world.do("files_move", path="/notes/a.txt", to="/b.txt")
    assert [(row["path"], row["person"]) for row in world.state()["share"]] == [("/b.txt", "bo@work.example")]
    world.do("files_delete", path="/b.txt")
    assert world.refused("files_read", path="/b.txt").code == "not_found"
    assert world.refused("files_move", path="/old.bin", to="/reports/q1.txt").code == "refused"
    assert world.refused("files_write", path="/reports", text="x").code == "refused"
    assert world.do("files_list", folder="/reports") == "/reports/q1.txt 10 chars"


def test_paths_lead_nowhere_else(world: Played) -> None:
    assert world.refused("files_read", path="/../../etc/passwd").code == "not_found"
    world.do("files_write", path="/../../etc/x", text="y")
    assert world.row("file", "/etc/x")
    assert world.refused("files_write", path="/", text="y").code == "bad_arguments"


def test_notes_and_todos(world: Played) -> None:
    assert world.do("notes_write", title="Plan", text="x") == "made n2"
    assert world.do("notes_read", id="n2") == "Plan (version 1)\nx"
    world.do("todo_update", id="t1", done="yes")
    world.do("todo_add", text="Buy milk", due="2026-03-03")
    assert world.do("todo_list", status="open") == "t2 open due 2026-03-03: Buy milk"
    assert world.refused("todo_add", text="x", due="tomorrow").code == "bad_arguments"
    assert world.refused("todo_update", id="t1", done="maybe").code == "bad_arguments"


def test_money_moves_to_the_cent_or_not_at_all(world: Played) -> None:
    world.do("bank_transfer", account="main", payee="Landlord", amount=0.1)
    world.do("bank_transfer", account="main", payee="Landlord", amount=0.2)
    assert world.row("account", "main")["balance"] == 100.2
    assert world.do("bank_transactions", query="landlord") == (
        "b2 2026-03-02 -0.10 Landlord\nb3 2026-03-02 -0.20 Landlord"
    )
    for amount in (100.21, 0, -5, 0.001, 1e300):
        world.refused("bank_transfer", account="main", payee="Landlord", amount=amount)


def test_expenses_are_drafts_until_they_are_handed_in(world: Played) -> None:
    world.do("expenses_add", amount=5, category="office", merchant="Pens", date="2026-03-01")
    world.do("expenses_submit", id="x2")
    assert world.row("expense", "x2")["status"] == "submitted"
    assert world.refused("expenses_submit", id="x2").code == "refused"
    assert world.do("expenses_list", status="draft") == "x1 2026-02-27 draft 12.30 meals Cafe"


def test_orders_go_through_their_states(world: Played) -> None:
    assert world.do("shop_buy", product="p1", quantity=3) == "ordered o3: 3 x Desk lamp, 89.70"
    assert world.row("order", "o3")["address"] == "Elm Street 4"
    assert world.refused("shop_buy", product="p1", quantity=2).text == "refused: only 1 of p1 in stock"
    world.do("shop_cancel", id="o3")
    assert world.row("product", "p1")["stock"] == 4
    assert world.refused("shop_cancel", id="o2").code == "refused"
    world.do("shop_return", id="o2", reason="too bright")
    assert world.do("shop_orders", status="returned") == "o2 2026-02-01 returned 2 x Desk lamp 59.80"


def test_the_web_answers_with_the_best_match_first(world: Played) -> None:
    assert world.do("web_search", query="when is rent due").startswith("https://a.example/rent Rent law:")
    assert world.do("web_open", url="https://a.example/rent").endswith("third day.")
    assert world.refused("web_open", url="https://b.example").code == "not_found"


def test_the_user_answers_by_the_first_rule_whose_words_all_occur(world: Played) -> None:
    assert world.do("user_ask", about="May I TRANSFER the rent?") == "user: Yes, pay it."
    assert world.do("user_ask", about="rent?") == "user: No idea."
    assert [row["reply"] for row in world.state()["question"]] == ["Yes, pay it.", "No idea."]


def test_names_of_any_script_are_kept_and_found() -> None:
    world = played(contacts=[{"name": "Łukasz Żółć 王小明 🦊", "email": "łukasz@ü.example"}])
    assert "王小明" in world.do("contacts_search", query="żółć")
    world.do("contacts_add", name="עברית", email="x@y.example")
    assert world.row("contact", "c2")["name"] == "עברית"


def test_after_done_nothing_more_happens(world: Played) -> None:
    world.do("done", answer="all well")
    assert world.refused("mail_delete", id="m1").code == "refused"
    assert '"answer":"all well"' in world.export()
