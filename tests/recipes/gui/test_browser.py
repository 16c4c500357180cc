"""What the browser does for a policy, and what it says of it."""

import io
from pathlib import Path

import pytest
from orchard_cli.recipes.gui.faults import BrowserFault
from orchard_cli.recipes.gui.seats import Seats
from PIL import Image

from orchard_cli.env.local.local import LocalEnv
from orchard_cli.env.sandbox import Sandbox

from .conftest import BAD, HERE, Hand, spec


def test_the_page_is_one_line_for_each_element(hand: Hand) -> None:
    assert hand.open("ok").splitlines() == [
        f"url: {HERE}/ok",
        'heading "Hello"',
        '[1] button "Press"',
        '[2] link "other page"',
        '[3] textbox "Name"',
        '[4] link "new window"',
    ]


def test_a_click_presses_and_ids_stay(hand: Hand) -> None:
    hand.open("ok")
    assert hand.call("click", id=1).code == "ok"
    assert '[1] button "pressed"' in hand.see()


def test_a_click_on_a_point_finds_the_same_element(hand: Hand) -> None:
    hand.open("ok")
    button = [23, 113]  # a little into the first control below the heading, in thousandths
    assert hand.call("click", point_2d=button).code == "ok"
    assert '[1] button "pressed"' in hand.see()


def test_a_link_tells_where_it_led_and_back_again(hand: Hand) -> None:
    hand.open("ok")
    assert hand.call("click", id=2).text == f"now at {HERE}/other"
    assert '"here we are"' in hand.see()
    assert hand.call("go_back").text == f"now at {HERE}/ok"
    assert hand.call("click", id=999).code == "no_such_element"


def test_writing_replaces_and_tells_if_the_field_holds_something_else(hand: Hand) -> None:
    hand.open("fields")
    box = hand.id("Digits")
    assert hand.call("write", id=box, message="12").code == "ok"
    assert hand.call("write", id=box, message="3").code == "ok"
    said = hand.call("write", id=box, message="4a5")
    assert (said.code, said.text) == ("value_differs", 'textbox "Digits" now holds "45"')


def test_a_list_is_chosen_from_by_writing(hand: Hand) -> None:
    hand.open("fields")
    size = hand.id("Size")
    assert hand.call("click", id=size).code == "use_write"
    assert hand.call("write", id=size, message="m").code in ("ok", "value_differs")
    assert 'value="M"' in hand.see()
    assert hand.call("write", id=size, message="XXL").code == "no_such_option"


def test_files_cannot_be_chosen(hand: Hand) -> None:
    hand.open("fields")
    assert hand.call("click", id=hand.id("Upload")).code == "refused"


def test_scrolling_shows_what_lies_below(hand: Hand) -> None:
    hand.open("fields")
    assert "below, scroll down" in hand.see()
    for _ in range(6):
        hand.call("scroll", direction="down", amount=1)
    assert 'button "Deep"' in hand.see()
    assert hand.call("scroll", direction="down").code == "not_moved"


def test_what_is_covered_is_not_clicked(hand: Hand) -> None:
    hand.open("covered")
    said = hand.call("click", id=hand.id("Under"))
    assert said.code == "covered"
    assert "Curtain" in said.text


def test_frames_and_open_shadows_are_part_of_the_page(hand: Hand) -> None:
    seen = hand.open("frames")
    assert 'button "Inside"' in seen
    assert 'button "Press"' in seen  # of another origin
    hand.call("click", id=hand.id("Press"))
    assert 'button "pressed"' in hand.see()
    hand.open("shadow")
    assert hand.call("click", id=hand.id("Shaded")).code == "ok"


def test_tabs_open_switch_and_close(hand: Hand) -> None:
    hand.open("ok")
    assert "new tab" in hand.call("click", id=4).text
    assert "tab [1] in front" in hand.see()
    assert hand.call("switch_tab", tab_index=5).code == "no_such_tab"
    assert hand.call("switch_tab", tab_index=0).code == "ok"
    assert hand.call("new_tab", url=f"{HERE}/other").code == "ok"
    assert hand.call("close_tab").code == "ok"
    assert hand.see().count("tab [") == 2


def test_keys_hover_and_drag_are_done(hand: Hand) -> None:
    hand.open("ok")
    assert hand.call("write", id=3, message="abc").code == "ok"
    assert hand.call("press_keys", keys=["ctrl+a"], is_hotkey=True).code == "ok"
    assert hand.call("press_keys", keys=["x", "y"], presses=2).code == "ok"
    assert 'value="xyxy"' in hand.see()
    assert hand.call("hover", id=1).code == "ok"
    assert hand.call("drag", start_point_2d=[10, 10], end_point_2d=[500, 500]).code == "ok"


def test_the_driver_and_the_disk_are_out_of_reach(hand: Hand) -> None:
    hand.open("ok")
    for url in ("file:///etc/passwd", "javascript:alert(1)", "chrome://version", "view-source:http://x", "data:,x"):
        assert hand.call("goto_url", url=url).code == "refused_url", url
    assert f"url: {HERE}/ok" in hand.see()


@pytest.mark.parametrize("view", ["screenshot", "marks"])
def test_pictures_have_the_size_of_the_viewport(hand: Hand, view: str) -> None:
    text = hand.open("ok", view)
    assert Image.open(io.BytesIO(hand.pictures[-1])).size == (1280, 720)
    assert ('button "Press"' in text) == (view == "marks")


def test_the_end_state_and_the_answer_are_kept(hand: Hand) -> None:
    hand.open("ok")
    assert hand.call("done", response="42").stop
    hand.close()
    assert hand.finals[-1]["answer"] == "42"
    assert hand.finals[-1]["url"] == f"{HERE}/ok"


def test_nothing_of_one_attempt_is_left_for_the_next(hand: Hand) -> None:
    hand.open("ok")
    assert hand.call("write", id=3, message="secret").code == "ok"
    assert "secret" not in hand.open("ok")


def test_a_browser_that_dies_is_our_fault_and_is_replaced(hand: Hand, env: LocalEnv) -> None:
    hand.open("ok")
    seat = hand.browser._seat  # type: ignore[union-attr]
    assert seat
    seat.sandbox.exec("kill -9 $(grep -la '[c]hrom' /proc/[0-9]*/cmdline | tr -dc '0-9\\n')")
    with pytest.raises(BrowserFault) as caught:
        hand.call("click", id=1)
    assert caught.value.fault.code.startswith("browser.")
    assert 'button "Press"' in hand.open("ok")


def test_a_browser_of_its_own_lives_in_the_attempts_sandbox(env: LocalEnv) -> None:
    seats = Seats(reuse=1)
    with env.open(spec(BAD)) as sandbox:
        hand = Hand(seats, sandbox)
        assert 'button "Press"' in hand.open("ok")
        assert chromiums(sandbox) > 0
        hand.close()
        assert chromiums(sandbox) == 0


def test_no_browser_outlives_its_seats(env: LocalEnv) -> None:
    before = alive(env)
    seats = Seats(reuse=5)
    with env.open(spec(BAD)) as sandbox:
        hand = Hand(seats, sandbox)
        hand.open("ok")
        assert len(alive(env) - before) > 0
        hand.close()
        seats.close()
    assert alive(env) - before == set()


def chromiums(sandbox: Sandbox) -> int:
    return int(sandbox.exec("grep -la '[t]ype=renderer' /proc/[0-9]*/cmdline | wc -l").stdout)


def alive(env: LocalEnv) -> set[int]:
    """Drivers and browsers in the sandboxes of `env`."""
    found, left = set(), [env.spawner_pid]
    while left:
        pid = left.pop()
        try:
            below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        left += map(int, below)
        if b"chrom" in line or b"-m\0driver\0" in line:
            found.add(pid)
    return found
