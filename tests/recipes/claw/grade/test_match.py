"""How fields and answers are compared."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from orchard_cli.recipes.claw.grade_match import fits, numbers, occurs

ANY = st.one_of(st.none(), st.booleans(), st.floats(), st.integers(), st.text(), st.lists(st.text()))


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        ("Ana  Ruiz", "ana ruiz"),
        ("it’s", "it's"),
        (12.5, "12.50"),
        ("12.50", 12.5),
        ("1,250", 1250),
        (True, True),
        (["b@x.test", "a@x.test"], ["a@x.test", "b@x.test"]),
        ("b@x.test, a@x.test", ["a@x.test", "b@x.test"]),
        (["a@x.test"], "a@x.test"),
        ("see Lisbon.", {"contains": "lisbon"}),
        ("it is not possible", {"any": ["cannot", "not possible"]}),
        (7, {"min": 5, "max": 7}),
        ("", {"empty": True}),
        ("x", {"in": ["y", "X"]}),
    ],
)
def test_these_fit(found: object, wanted: object) -> None:
    assert fits(found, wanted)


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        ("Ana", "Anna"),
        (None, "x"),
        (True, 1),
        ("nan", 5),
        (["a@x.test", "b@x.test"], "a@x.test"),
        ("Lisbonne", {"contains": "Lisbon"}),
        ("Oslo or Lisbon", {"contains": "Lisbon", "not": "Oslo"}),
        ("many", {"min": 1}),
        ("x", {"empty": True}),
    ],
)
def test_these_do_not(found: object, wanted: object) -> None:
    assert not fits(found, wanted)


@pytest.mark.parametrize(
    ("word", "text", "there"),
    [
        (5, "15 or 5.5", False),
        (5, "it is 5.", True),
        (12.5, "12.50 EUR", True),
        (1250, "1,250 in all", True),
        (30, "at 12:30", False),
        (2026, "on 2026-03-01", False),
        ("2026-03-01", "on 2026-03-01 at 10:00", True),
        ("12:30", "at 12:30", True),
        ("Ana", "Anabel", False),
        ("a.b", "axb", False),
        (-7, "it is -7", True),
    ],
)
def test_words_and_numbers_stand_on_their_own(word: object, text: str, there: bool) -> None:
    assert occurs(word, text) is there


@given(ANY, st.one_of(ANY, st.dictionaries(st.sampled_from(["is", "contains", "any", "not", "in"]), ANY, max_size=2)))
def test_no_value_of_an_agent_breaks_a_comparison(found: object, wanted: object) -> None:
    assert fits(found, wanted) in (True, False)


@given(st.text())
def test_numbers_can_be_looked_for_in_any_text(text: str) -> None:
    assert all(isinstance(n, float) for n in numbers(text))
