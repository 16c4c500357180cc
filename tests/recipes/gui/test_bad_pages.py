"""Pages that mean no good: each is told to the policy, none ends the attempt, and the browser goes on."""

from .conftest import HERE, Hand


def test_an_alert_storm_costs_the_tab_and_no_more(hand: Hand) -> None:
    hand.open("alerts")
    said = hand.call("click", id=hand.id("Storm"))
    assert said.code == "dialog_storm"
    assert hand.call("goto_url", url=f"{HERE}/ok").code == "ok"
    assert 'button "Press"' in hand.see()


def test_questions_are_answered_and_told(hand: Hand) -> None:
    hand.open("asks")
    said = hand.call("click", id=hand.id("Ask"))
    assert said.code == "ok"
    assert 'confirm "Sure?", answered OK' in said.text
    assert 'prompt "Who?", answered "me"' in said.text


def test_a_page_cannot_keep_the_policy_from_leaving(hand: Hand) -> None:
    hand.open("leave")
    hand.call("click", id=hand.id("Stay"))
    assert hand.call("goto_url", url=f"{HERE}/ok").code == "ok"
    assert f"url: {HERE}/ok" in hand.see()


def test_a_popup_bomb_leaves_few_tabs(hand: Hand) -> None:
    hand.open("popups")
    hand.call("click", id=hand.id("Bomb"))
    assert hand.see().count("tab [") <= 8
    assert hand.call("switch_tab", tab_index=0).code == "ok"
    assert 'button "Bomb"' in hand.see()


def test_a_page_that_hangs_is_closed(hand: Hand) -> None:
    hand.open("hangs")
    assert hand.call("click", id=hand.id("Hang")).code == "page_unresponsive"
    assert hand.call("goto_url", url=f"{HERE}/ok").code == "ok"
    assert 'button "Press"' in hand.see()


def test_a_renderer_that_eats_all_memory_is_closed(hand: Hand) -> None:
    hand.open("eats")
    assert hand.call("click", id=hand.id("Eat")).code in ("page_crashed", "page_unresponsive")
    assert hand.call("goto_url", url=f"{HERE}/ok").code == "ok"
    assert 'button "Press"' in hand.see()


def test_a_page_of_20_megabytes_is_shown_in_part(hand: Hand) -> None:
    hand.open("other")
    said = hand.call("goto_url", url=f"{HERE}/big")
    assert said.code in ("ok", "navigation_timeout")
    seen = hand.see()
    assert 'link "item 0"' in seen
    assert len(seen) < 20_000
