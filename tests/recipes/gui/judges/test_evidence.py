"""What a judge may look at, from the record of an attempt."""

import pytest
from orchard_cli.recipes.gui.judges import Shot, evidence
from orchard_cli.recipes.gui.judges.evidence import answer_of

from orchard_cli.trajectory import Message, Step

MESSAGES = (
    Message("system", "You drive a browser."),
    Message("user", "Find it.\n\npage 0", images=("a" * 64,)),
    Message("assistant", "I think hard.\nclick(id=1)", reasoning="secret thoughts"),
    Message("user", "page 1", images=("b" * 64,)),
    Message("assistant", 'That is it.\ndone(response="42")'),
)
STEPS = (Step(2, "click(id=1)\nwait()", 3), Step(4, 'done(response="42")'))


def test_actions_and_screenshots_are_shown_and_thoughts_are_not() -> None:
    seen = evidence("Find it.", MESSAGES, STEPS, url="http://a/", requirements={"sort": "None"})
    assert seen.answer == "42" and seen.actions == ("click(id=1)", "wait()", 'done(response="42")')
    assert seen.shots == (Shot(image="a" * 64), Shot(image="b" * 64))
    assert "think" not in str(seen) and "secret" not in str(seen)


def test_without_any_screenshot_the_pages_texts_are_shown() -> None:
    plain = [Message(m.role, m.content) for m in MESSAGES]
    assert evidence("Find it.", plain, STEPS).shots == (Shot(text="Find it.\n\npage 0"), Shot(text="page 1"))


@pytest.mark.parametrize(
    ("action", "answer"),
    [
        ("click(id=1)", ""),
        ("", ""),
        ("done()", ""),
        ("done(response=)", ""),
        ('done(response="  a\\nb ")', "a\nb"),
        ('click(id=2)\ndone(response="x")', "x"),
        ('done(response="x")\nclick(id=2)', ""),
    ],
)
def test_only_a_last_done_is_an_answer(action: str, answer: str) -> None:
    assert answer_of([Step(0, action)]) == answer
    assert answer_of([]) == ""
