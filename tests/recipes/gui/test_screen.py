"""Reading back what was shown, and the teachers' sums, without a browser."""

import random

import pytest
from orchard_cli.recipes.gui.miniwob.teachers import TEACHERS, script
from orchard_cli.recipes.gui.miniwob.teachers.moment import Moment
from orchard_cli.recipes.gui.miniwob.teachers.slips import slip
from orchard_cli.recipes.gui.screen import Screen, goal, screens

from orchard_cli.harness.calls import CALLS
from orchard_cli.policy.policy import Sampling
from orchard_cli.task import Task
from orchard_cli.trajectory import Message

TEXT = """Do what the page asks for.

Goal: Select "a b" and click Submit.
[1] checkbox "a b" checked
[2] combobox "" value="x" options="x|y z"
[3] circle red at 250,-30 size 8x9
[12] button "Submit" disabled
"free text" """


def moment(goal: str, *lines: str) -> Moment:
    return Moment(goal, Screen("\n".join(lines)), 0)


def test_lines_are_read_back() -> None:
    screen = Screen(TEXT)
    assert [t.id for t in screen.things] == [1, 2, 3, 12]
    assert screen.find("checkbox", name="A B").has("checked")  # type: ignore[union-attr]
    assert screen.things[1].options == ["x", "y z"]
    assert (screen.things[2].tone, screen.things[2].place) == ("red", (250, -30, 8, 9))
    assert screen.find("button").has("disabled")  # type: ignore[union-attr]
    said = [Message("user", TEXT), Message("assistant", "x"), Message("user", "[1] button")]
    assert goal(said) == 'Select "a b" and click Submit.'
    assert len(screens(said)) == 2


@pytest.mark.parametrize(
    ("page", "goal", "lines", "calls"),
    [
        ("simple-algebra", "Solve for x", ['[1] text "8 - x = 85"', '[2] textbox ""', '[3] button "Submit"'], "-77"),
        ("simple-algebra", "Solve for x", ['[1] text "x + 3 = 5"', '[2] textbox ""', '[3] button "Submit"'], "2"),
        ("simple-arithmetic", "Solve", ['[1] text "8 - 9 ="', '[2] textbox ""', '[3] button "Submit"'], "-1"),
        ("enter-time", "Enter 12:09 AM as", ['[2] time ""', '[3] button "Submit"'], "00:09"),
        ("enter-date", "Enter 06/26/2018 as", ['[2] date ""', '[3] button "Submit"'], "2018-06-26"),
    ],
)
def test_teachers_work_it_out(page: str, goal: str, lines: list[str], calls: str) -> None:
    made = TEACHERS[page](moment(goal, *lines))
    assert [c.arguments for c in made] == [{"id": 2, "message": calls}, {"id": 3}]


def test_a_page_unlike_the_known_one_is_given_up() -> None:
    policy = script(Task("t", "gui", "", family="click-tab"), seed=0, error_rate=0.0, format=CALLS["calls"])
    said = policy.reply([Message("user", "Goal: nothing of the kind")], sampling=Sampling())
    assert said.message.content == "done()"


def test_a_slip_changes_the_calls() -> None:
    calls = TEACHERS["enter-text"](moment('Enter "abc" into', '[1] textbox ""', '[2] button "Submit"'))
    screen = Screen('[1] textbox ""\n[2] button "Submit"')
    assert all(slip(calls, screen, random.Random(seed)) != list(calls) for seed in range(30))
