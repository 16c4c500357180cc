"""What a family draws: by the seed alone, never the same element twice, and no code from a task file."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from orchard_cli.recipes.claw.tasks.draws import draw
from orchard_cli.recipes.claw.tasks.fill import fill
from orchard_cli.recipes.claw.tasks.reading import FieldError


@given(st.integers())
def test_people_of_one_task_are_different(seed: int) -> None:
    rules = {"a": {"pick": "people"}, "b": {"pick": "people", "n": 3}, "c": {"pick": "people"}}
    values = draw(rules, random.Random(seed))
    names = [values["a"]["name"], values["c"]["name"], *(p["name"] for p in values["b"])]
    assert len(set(names)) == 5


def test_days_and_times_move_over_midnight_and_the_end_of_a_month() -> None:
    rules = {
        "day": "2026-02-27",
        "later": {"shift": "{day}", "days": 2},
        "time": {"shift": "23:30", "minutes": 60},
        "moment": {"shift": "2026-12-31T23:30", "minutes": 60},
        "name": {"weekday": "{later}"},
    }
    values = draw(rules, random.Random(0))
    assert [values[k] for k in ("later", "time", "moment", "name")] == [
        "2026-03-01",
        "00:30",
        "2027-01-01T00:30",
        "Sunday",
    ]


def test_sums_of_whole_numbers_stay_whole_and_money_has_cents() -> None:
    rules = {"a": 3, "b": 4, "c": 0.1, "d": {"sum": ["{a}", "{b}"]}, "e": {"sum": ["{a}", "{c}"]}}
    values = draw(rules, random.Random(0))
    assert values["d"] == 7 and isinstance(values["d"], int) and values["e"] == 3.1
    assert fill("{d} and {e}, -{d}", values) == "7 and 3.10, -7"
    assert fill("-{d}", values) == -7


@pytest.mark.parametrize("text", ["{a.__class__}", "{a.b}", "{b}", "{a.0}"])
def test_a_slot_reaches_only_what_was_drawn(text: str) -> None:
    try:
        assert fill(f"x {text}", {"a": "v"}) == f"x {text}"  # no slot at all
    except FieldError as error:
        assert "is not drawn" in error.message


@pytest.mark.parametrize(
    "rule",
    [{"pick": []}, {"pick": "people", "n": 99}, {"shift": "soon"}, {"whole": ["a", 2]}, {"day": [1, 10**12]}, {}],
)
def test_a_rule_that_cannot_be_drawn_is_named(rule: object) -> None:
    with pytest.raises(FieldError) as caught:
        draw({"x": rule}, random.Random(0))
    assert caught.value.field == "draw.x"
