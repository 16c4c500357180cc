"""Agreement of a judge with the world: counts, intervals, and what is left out."""

import random
from collections.abc import Sequence

import pytest
from orchard_cli.recipes.gui.judges import Evidence, Shot, judge_of
from orchard_cli.recipes.gui.judges.agreement import Pair, agreement, pairs, table

from orchard_cli.outcome import wilson
from orchard_cli.policy.scripted import ScriptedPolicy
from orchard_cli.trajectory import Message

ONCE = [Pair(f"t{i}", i < 50, (i < 50) != (i % 10 == 0)) for i in range(100)]  # every tenth verdict is wrong


def test_counts_and_shares_of_a_known_judge() -> None:
    found = agreement("webvoyager", [*ONCE, Pair("x", True, None)])
    assert (found.true_positive, found.false_positive, found.false_negative, found.true_negative) == (45, 5, 5, 45)
    assert found.lost == 1 and found.n == 100 and found.tasks == 100
    assert found.accuracy.value == 0.9 and (found.accuracy.low, found.accuracy.high) == wilson(90, 100)
    assert found.f1.value == pytest.approx(0.9) and 0.8 < found.f1.low < 0.9 < found.f1.high < 0.97
    assert found.let_pass.value == 0.1 and found.kappa.value == pytest.approx(0.8)


def test_attempts_at_one_task_do_not_count_as_independent() -> None:
    rng = random.Random(0)
    verdicts = {f"t{i}": (rng.random() < 0.5, rng.random() < 0.8) for i in range(20)}
    many = [Pair(t, state, state == right) for t, (state, right) in verdicts.items() for _ in range(10)]
    wide = agreement("x", many).accuracy
    narrow = wilson(sum(p.state == p.judge for p in many), len(many))
    assert wide.high - wide.low > 2 * (narrow[1] - narrow[0])


def test_numbers_that_cannot_be_counted_are_not_made_up() -> None:
    empty = agreement("x", [])
    assert empty.n == 0 and empty.accuracy.value is None and empty.f1.value is None and "–" in table([empty])
    failures = agreement("x", [Pair(f"t{i}", False, False) for i in range(5)])
    assert failures.recall.value is None and failures.let_pass.value == 0.0 and failures.let_pass.high > 0.3


def test_the_same_pairs_give_the_same_intervals() -> None:
    assert agreement("x", ONCE) == agreement("x", ONCE)


def test_a_yes_sayer_is_seen_in_the_table() -> None:
    yes = agreement("yes|sayer", [p._replace(judge=True) for p in ONCE])
    assert yes.let_pass.value == 1.0 and yes.kappa.value == 0.0
    shown = table([yes, agreement("good", ONCE)])
    assert "| yes\\|sayer | 100 | 0 | 50.0 [40.4, 59.6] |" in shown and "100.0 [92.9, 100.0]" in shown


def test_a_judge_is_asked_and_its_failures_are_counted_as_lost() -> None:
    def said(messages: Sequence[Message]) -> Message:
        words = ("SUCCESS", "NOT SUCCESS", "no idea")
        return Message("assistant", next(w for n, w in enumerate(words) if f"task {n}" in messages[-1].content))

    judge = judge_of("webvoyager", ScriptedPolicy("judge", said))
    attempts = [(f"t{n}", Evidence(f"task {n}", "done", (), (Shot(text="page"),)), n == 0) for n in range(3)]
    found = list(pairs(judge, attempts))
    assert found == [Pair("t0", True, True), Pair("t1", False, False), Pair("t2", False, None)]
    assert agreement(judge.name, found).lost == 1
