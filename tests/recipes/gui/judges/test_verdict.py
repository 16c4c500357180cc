"""Reading verdicts: failure is looked for first, and nothing unclear counts as success."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from orchard_cli.recipes.gui.judges.verdict import json_verdict, key_points, score, status, success_word


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("SUCCESS", True),
        ("All is there, so it is a **SUCCESS**.", True),
        ("NOT SUCCESS", False),
        ("At first it looked like SUCCESS, but: NOT SUCCESS", False),
        ("NOT  SUCCESS", False),
        ("**NOT** **SUCCESS**", False),
        ("NOT_SUCCESS", False),
        ("NOT A SUCCESS", False),
        ("UNSUCCESSFUL", False),
        ("The success of this is unclear.\nI cannot say.", None),
        ("Reasons.\nVerdict: not success", False),
        ("Reasons.\nVerdict: success", True),
        ("Reasons.\nVerdict: failure", False),
        ("", None),
        ("I cannot help with that.", None),
    ],
)
def test_not_success_is_looked_for_first(text: str, wanted: bool | None) -> None:
    assert success_word(text) is wanted


@settings(deadline=None)
@given(st.text(), st.text())
def test_no_words_around_it_turn_a_no_into_a_yes(before: str, after: str) -> None:
    assert success_word(f"{before} NOT SUCCESS {after}") is False


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('Thoughts: ok\nStatus: "success"', True),
        ("Status: failure", False),
        ("**Status:** `success`", True),
        ('The page says Status: "success".\nStatus: "failure"', False),
        ("Status: successfully blocked", None),
        ("Status: not success", None),
        ("success", None),
        ("", None),
    ],
)
def test_the_last_status_counts(text: str, wanted: bool | None) -> None:
    assert status(text) is wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Score: 4", 4),
        ("**Score**: 3/5", 3),
        ("Score: 4.", 4),
        ("Score: 1\nScore: 5", 5),
        ("Score: 7", None),
        ("4", None),
    ]
    + [("Score: 4.5", None), ("Score: 44", None)],
)
def test_scores_are_one_to_five(text: str, wanted: int | None) -> None:
    assert score(text) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('{"thought": "a", "verdict": "SUCCESS"}', (True, "a")),
        ('```json\n{"thought": "a", "verdict": "not success"}\n```', (False, "a")),
        ('{"verdict": true}', (True, "")),
        ('{"verdict": false, "thought": 3}', (False, "3")),
        ('{"verdict": "maybe"}', None),
        ('{"verdict": null}', None),
        ('{"verdict": ["SUCCESS"', None),
        ("[1]", None),
        ('{"thought": "x"}', None),
        ("SUCCESS", None),
    ],
)
def test_a_verdict_in_json_is_read(text: str, wanted: tuple[bool, str] | None) -> None:
    assert json_verdict(text) == wanted


def test_key_points_are_the_listed_lines() -> None:
    assert key_points("Sure!\n**Key Points**:\n1. red\n2) under $20\n- sorted\n\nThat is all.") == [
        "red",
        "under $20",
        "sorted",
    ]
    assert key_points("There are none.") is None
