"""The grader: right ends pass, and nothing else does."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from orchard_cli.recipes.gui.shop.families import FAMILIES
from orchard_cli.recipes.gui.shop.grade import amounts, answers, expected, grade, read_state
from orchard_cli.recipes.gui.shop.storefront.catalog import catalogue
from orchard_cli.recipes.gui.shop.tasks import generate

from orchard_cli.errors import GradeError
from orchard_cli.task import Task

TASKS = list(generate("eval", len(FAMILIES)))


def right_end(task: Task) -> tuple[dict[str, Any], str]:
    """A state and an answer that solve the task."""
    state = copy.deepcopy(expected(task))
    state["past"] = [{"number": k, "status": v} for k, v in state["past"].items()]
    plan = task.hidden["plan"]
    return state, plan[-1]["text"] if plan[-1]["do"] == "answer" else "Done."


@pytest.mark.parametrize("task", TASKS, ids=lambda t: t.family)
def test_the_right_end_scores_one(task: Task) -> None:
    state, answer = right_end(task)
    reward, details = grade(task, state, answer)
    assert reward == 1.0 and details["differs"] == {}


def _product(task: Task, draw: Callable[..., Any]) -> str:
    return draw(st.sampled_from(sorted(catalogue(task.data["shop"]["seed"]))))


@st.composite
def spoilt(draw: Any) -> tuple[Task, dict[str, Any], str, str]:
    """A solved task with one side effect in one part of its state."""
    task = draw(st.sampled_from(TASKS))
    state, answer = right_end(task)
    part = draw(st.sampled_from(("cart", "orders", "favourites", "address", "past")))
    product, n = _product(task, draw), draw(st.integers(1, 5))
    if part == "cart":
        state["cart"][product] = state["cart"].get(product, 0) + n
    elif part == "orders":
        whom = dict.fromkeys(("name", "street", "city", "postcode"), "x")
        state["orders"].append({"items": {product: n}, "address": whom, "delivery": "express"})
    elif part == "favourites":
        state["favourites"].append(product)
    elif part == "address":
        state["address"][draw(st.sampled_from(sorted(state["address"])))] += "1"
    else:
        state["past"][draw(st.integers(0, len(state["past"]) - 1))]["status"] = "lost"
    return task, state, answer, part


@settings(deadline=None)
@given(spoilt())
def test_any_side_effect_costs_the_task(case: tuple[Task, dict[str, Any], str, str]) -> None:
    task, state, answer, part = case
    reward, details = grade(task, state, answer)
    assert reward == 0.0 and not details["checks"][part] and part in details["differs"]


@settings(deadline=None)
@given(st.sampled_from([t for t in TASKS if t.hidden["answer"]]), st.text(max_size=60))
def test_chance_answers_earn_nothing(task: Task, said: str) -> None:
    state, answer = right_end(task)
    clue = any(c.isdigit() for c in said) if answer[-1].isdigit() else answer.lower() in said.lower()
    assert clue or grade(task, state, said)[0] == 0.0


def test_capitals_blanks_and_order_do_not_matter() -> None:
    task = next(t for t in TASKS if t.family == "checkout")
    state, answer = right_end(task)
    order = state["orders"][0]
    order["address"] = {k: f"  {v.upper()} " for k, v in order["address"].items()}
    order["items"] = dict(reversed(order["items"].items()))
    assert grade(task, state, answer)[0] == 1.0


@pytest.mark.parametrize(
    ("wanted", "said", "right"),
    [
        ({"kind": "status", "value": "shipped"}, "Shipped.", True),
        ({"kind": "status", "value": "shipped"}, "It is shipped, processing, delivered or cancelled", False),
        ({"kind": "status", "value": "shipped"}, "not shipped", False),
        ({"kind": "status", "value": "shipped"}, "unshipped", False),
        ({"kind": "status", "value": "shipped"}, "", False),
        ({"kind": "money", "value": 5420}, "The total of order 39449 was $54.20.", True),
        ({"kind": "money", "value": 5420}, "54.20", True),
        ({"kind": "money", "value": 5400}, "54", True),
        ({"kind": "money", "value": 125400}, "$1,254.00", True),
        ({"kind": "money", "value": 5420}, "$54.20 or $54.30", False),
        ({"kind": "money", "value": 5420}, "$154.20", False),
        ({"kind": "money", "value": 5420}, "$54.205", False),
        ({"kind": "number", "value": 7}, "There are 7 of them.", True),
        ({"kind": "number", "value": 7}, "7.", True),
        ({"kind": "number", "value": 46176}, "Order 46176 of 2026-03-04", True),
        ({"kind": "number", "value": 7}, "1 2 3 4 5 6 7 8 9", False),
        ({"kind": "number", "value": 7}, "7.5", False),
        ({"kind": "number", "value": 7}, "$7", False),
        ({"kind": "name", "value": "Tarn Tea Mug", "others": ["Lumo Tea Mug"]}, "the TARN  tea mug", True),
        ({"kind": "name", "value": "Tarn Tea Mug", "others": ["Lumo Tea Mug"]}, "Tarn Tea Mug, Lumo Tea Mug", False),
    ],
)
def test_an_answer_is_right_only_if_it_gives_the_one_value(wanted: dict[str, Any], said: str, right: bool) -> None:
    assert answers(wanted, said) is right


@settings(deadline=None)
@given(st.integers(0, 10**7))
def test_any_amount_is_read_back(value: int) -> None:
    assert amounts(f"it was ${value // 100:,}.{value % 100:02d}, thanks") == {value}


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"\xff\xfe", b"null"])
def test_a_broken_state_file_is_the_verifiers_fault(text: bytes) -> None:
    with pytest.raises(GradeError, match="cannot be read"):
        read_state(text)


@pytest.mark.parametrize(
    "change", [{"cart": None}, {"cart": {"p1": "x"}}, {"orders": [{}]}, {"address": {}}, {"past": 3}]
)
def test_a_state_of_another_shape_is_the_verifiers_fault(change: dict[str, Any]) -> None:
    state, answer = right_end(TASKS[0])
    with pytest.raises(GradeError, match="cannot be read"):
        grade(TASKS[0], state | change, answer)


def test_a_state_without_a_part_is_the_verifiers_fault() -> None:
    state, answer = right_end(TASKS[0])
    del state["orders"]
    with pytest.raises(GradeError):
        grade(TASKS[0], state, answer)
