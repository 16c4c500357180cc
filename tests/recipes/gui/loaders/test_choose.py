"""Filters and near-duplicates: what is kept, what is dropped and why."""

import random
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from orchard_cli.recipes.gui.loaders import Filter, choose, distinct, unlike
from orchard_cli.recipes.gui.loaders.alike import similarity, words

from orchard_cli.task import Task


def task(id: str, prompt: str = "Do it.", site: str = "a.com", level: str = "easy") -> Task:
    return Task(id, "gui", prompt, data={"site": site, "level": level})


def test_each_condition_leaves_out_what_it_names() -> None:
    tasks = [task("1"), task("2", site="shop.b.com"), task("3", level="hard"), task("4", "on March 3, 2020"), task("5")]
    kept, out = choose(tasks, Filter(not_sites=("b.com",), levels=("easy",), today=date(2026, 1, 1)))
    assert [t.id for t in kept] == ["1", "5"] and out == {"site": 1, "level": 1, "expired": 1}
    assert [t.id for t in choose(tasks, Filter(sites=("b.com",)))[0]] == ["2"]
    assert choose(tasks, Filter())[0] == tasks
    assert choose([task("1", "a b c d")], Filter(most_words=3))[1] == {"long": 1}


def test_sites_are_capped_and_rare_ones_left_out_after_the_rest() -> None:
    tasks = [task(f"a{i}") for i in range(5)] + [task("b", site="b.com")]
    kept, out = choose(tasks, Filter(least_per_site=2, most_per_site=3))
    assert [t.id for t in kept] == ["a0", "a1", "a2"] and out == {"site_full": 2, "rare_site": 1}
    assert len(kept) + out.total() == len(tasks)


def test_a_name_that_only_ends_alike_is_another_site() -> None:
    assert choose([task("1", site="notb.com")], Filter(not_sites=("b.com",)))[1] == {}


def test_near_duplicates_of_one_site_are_dropped_with_their_twin() -> None:
    tasks = [
        task("1", "Find the cheapest red mug with free delivery in the kitchen section today"),
        task("2", "Find the cheapest red mug, with free delivery, in the KITCHEN section: today!"),
        task("3", "Find the cheapest red mug with free delivery in the kitchen section today", site="b.com"),
        task("4", "Book a table for two"),
    ]
    kept, dropped = distinct(tasks)
    assert [t.id for t in kept] == ["1", "3", "4"] and dropped == [("2", "1")]


def test_training_tasks_that_resemble_evaluation_are_dropped() -> None:
    pool = [task("1", "Find a red mug"), task("2", "Book a table")]
    kept, dropped = unlike(pool, [task("e", "find a RED mug.")])
    assert [t.id for t in kept] == ["2"] and dropped == [("1", "e")]


TEXT = st.lists(st.sampled_from(["a", "b", "c", "d", "e", "f", "g", "h"]), max_size=6).map(" ".join)


@settings(max_examples=150, deadline=None)
@given(st.lists(TEXT, max_size=12), st.sampled_from([0.3, 0.5, 0.75, 0.9, 1.0]))
def test_the_filter_finds_exactly_what_comparing_all_pairs_finds(texts: list[str], least: float) -> None:
    tasks = [task(str(i), text) for i, text in enumerate(texts)]
    wanted: list[Task] = []
    for t in tasks:
        if all(similarity(words(t.prompt), words(k.prompt)) < least for k in wanted):
            wanted.append(t)
    kept, dropped = distinct(tasks, least=least)
    assert kept == wanted and len(kept) + len(dropped) == len(tasks)


@pytest.mark.parametrize("least", [0.0, 1.5])
def test_an_impossible_similarity_is_refused(least: float) -> None:
    with pytest.raises(ValueError, match="similarity"):
        distinct([task("1")], least=least)


def test_thousands_of_tasks_are_compared_without_comparing_all_pairs() -> None:
    rng = random.Random(0)
    vocabulary = [f"w{i}" for i in range(3000)]
    tasks = [task(str(i), " ".join(rng.choices(vocabulary, k=15))) for i in range(4000)]
    kept, dropped = distinct([*tasks, *(task(f"again{t.id}", t.prompt.upper()) for t in tasks[:50])])
    assert len(kept) == 4000 and [id for id, _ in dropped] == [f"again{i}" for i in range(50)]
