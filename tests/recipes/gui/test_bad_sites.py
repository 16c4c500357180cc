"""Sites that fail: told to the policy on its way, a fault of the site at the start; and pages that deceive."""

import pytest
from orchard_cli.recipes.gui.faults import BrowserFault

from .conftest import HERE, Hand


@pytest.mark.parametrize(
    ("page", "code"),
    [
        ("loop", "redirect_loop"),
        ("auth", "http_auth"),
        ("file", "download"),
        ("404", "http_error"),
        ("403", "blocked"),
        ("500", "site_down"),
        ("captcha", "captcha"),
    ],
)
def test_going_nowhere_is_told(hand: Hand, page: str, code: str) -> None:
    hand.open("ok")
    assert hand.call("goto_url", url=f"{HERE}/{page}").code == code
    assert hand.call("goto_url", url=f"{HERE}/ok").code == "ok"


def test_the_error_page_that_comes_late_does_not_stop_the_next_visit(hand: Hand) -> None:
    hand.open("ok")
    for _ in range(5):
        assert hand.call("goto_url", url=f"{HERE}/loop").code == "redirect_loop"
        assert hand.call("goto_url", url=f"{HERE}/ok").code == "ok"


def test_a_dead_port_is_told(hand: Hand) -> None:
    hand.open("ok")
    assert hand.call("goto_url", url="http://127.0.0.1:9/").code in ("site_down", "navigation")


@pytest.mark.parametrize(
    ("page", "code"),
    [
        ("loop", "site.redirect_loop"),
        ("403", "site.blocked"),
        ("500", "site.site_down"),
        ("auth", "site.http_auth"),
        ("captcha", "site.captcha"),
    ],
)
def test_a_site_that_fails_at_the_start_is_a_fault_of_the_site(hand: Hand, page: str, code: str) -> None:
    with pytest.raises(BrowserFault) as caught:
        hand.open(page)
    assert caught.value.fault.code == code
    assert caught.value.fault.attributable == "infra"
    assert 'button "Press"' in hand.open("ok")


def test_a_page_that_tampers_with_the_language_changes_nothing(hand: Hand) -> None:
    assert 'button "Still here"' in hand.open("tamper")


def test_a_page_cannot_name_an_element_that_is_not_there(hand: Hand) -> None:
    seen = hand.open("ids")
    assert len([line for line in seen.splitlines() if line.startswith("[")]) == 2
    assert hand.call("click", id=7).code == "no_such_element"
    assert hand.call("click", id=2).code == "ok"


def test_a_page_that_closes_its_only_tab_leaves_an_empty_one(hand: Hand) -> None:
    hand.open("closes")
    hand.call("click", id=hand.id("Close"))
    assert hand.call("goto_url", url=f"{HERE}/ok").code == "ok"
    assert 'button "Press"' in hand.see()


def test_text_that_is_not_utf8_stays_valid(hand: Hand) -> None:
    seen = hand.open("latin")
    assert "button" in seen
    seen.encode()
