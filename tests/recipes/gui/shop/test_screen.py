"""Reading what a page looks like in words, however it is written down."""

import pytest
from orchard_cli.recipes.gui.shop.screen import Screen, screens
from orchard_cli.recipes.gui.shop.steps import step

from orchard_cli.trajectory import Message


@pytest.mark.parametrize(
    "line",
    [
        '[12] button "Add to cart"',
        '  [12] button "Add to cart" focused',
        "- [12]: <button> 'Add to cart'",
        "[12] button: Add to cart",
        '[12] BUTTON "add to cart" (disabled=false)',
    ],
)
def test_a_thing_is_read_from_many_spellings(line: str) -> None:
    thing = Screen.read(f"URL: http://127.0.0.1:8000/product/p1\n{line}").find("button", "Add to cart")
    assert thing is not None and thing.id == 12


def test_ids_may_be_words_and_names_may_hold_quotes() -> None:
    screen = Screen.read('[a7] link "The \\"best\\" mug, red"')
    thing = screen.find("link", 'The "best" mug', begins=True)
    assert thing is not None and thing.id == "a7"


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("URL: http://a/cart?added=p1", "http://a/cart?added=p1"),
        ("Tab 0: http://b/\n* Tab 1 (active): http://a/x", "http://a/x"),
        ("Page: Cart (http://a/cart)", "http://a/cart"),
        ("url: http://a/x", "http://a/x"),
        ("tab [0]: http://b/\ntab [1] in front: http://a/x\ntab [2]: http://c/", "http://a/x"),
        ("nothing here", ""),
        ('URL: http://a/\n[3] link "http://evil/"', "http://a/"),
    ],
)
def test_the_open_address_is_found(text: str, url: str) -> None:
    assert Screen.read(text).url == url


def test_what_is_said_between_two_replies_is_one_screen() -> None:
    said = Message("assistant", 'URL: http://not/seen\n[9] button "no"')
    seen = screens(
        [
            Message("system", "URL: http://system/"),
            Message("user", "URL: http://a/"),
            said,
            Message("tool", "clicked", tool_call_id="x"),
            Message("tool", 'URL: http://b/\n[1] link "Home"', tool_call_id="y"),
        ]
    )
    assert [s.url for s in seen] == ["http://a/", "http://b/"]
    assert seen[1].find("link", "home") is not None and seen[1].find("button", "no") is None


def test_a_shopper_scrolls_for_what_is_not_in_view() -> None:
    screen = Screen.read('url: http://a/\n[1] link "Home"\n(7 elements below, scroll down)')
    _, (scroll,) = step({"do": "checkout", "delivery": "express", "address": {}}, screen, "http://a/")
    assert (scroll.name, scroll.arguments["direction"]) == ("scroll", "down")
    bottom = Screen.read('url: http://a/\n[1] link "Home"')
    _, (click,) = step({"do": "checkout", "delivery": "express", "address": {}}, bottom, "http://a/")
    assert click.arguments == {"id": 1}
    _, (lost,) = step({"do": "checkout", "delivery": "express", "address": {}}, Screen.read(""), "http://a/")
    assert (lost.name, lost.arguments) == ("goto_url", {"url": "http://a/"})
