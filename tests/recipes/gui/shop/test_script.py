"""The scripted shopper against the real shop: right ways score 1, every kind of mistake scores 0."""

import random

import pytest
from orchard_cli.recipes.gui.shop.families import FAMILIES
from orchard_cli.recipes.gui.shop.script import native, next_turn, noop, script, wrong
from orchard_cli.recipes.gui.shop.slips import SLIPS, slipped
from orchard_cli.recipes.gui.shop.tasks import generate

from orchard_cli.policy.scripted import ScriptedPolicy

from .conftest import Attempt

TASKS = [*generate("train", 2 * len(FAMILIES)), *generate("eval", 2 * len(FAMILIES))]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_careful_shopper_does_every_family(family: str, attempt: Attempt) -> None:
    for task in (t for t in TASKS if t.family == family):
        ended = attempt(task, script(task, seed=0, error_rate=0.0))
        assert ended.reward == 1.0, (task.prompt, ended.details, ended.messages[-1].content)
        assert ended.turns <= 12


@pytest.mark.parametrize("family", FAMILIES)
def test_no_mistake_and_no_idleness_is_ever_rewarded(family: str, attempt: Attempt) -> None:
    task = next(t for t in TASKS if t.family == family)
    assert attempt(task, noop(task)).reward == 0.0
    tried = set()
    for kind in SLIPS:
        try:
            plan = slipped(task, random.Random(1), kind)[1]
        except ValueError:
            continue

        def respond(messages, plan=plan):
            thought, calls = next_turn(plan, messages)
            return native(calls, thought)

        ended = attempt(task, ScriptedPolicy(kind, respond))
        assert ended.reward == 0.0, (kind, task.prompt)
        tried.add(kind)
    assert {"gives_up", "extra"} <= tried and len(tried) >= 3


@pytest.mark.parametrize("family", FAMILIES)
def test_both_wrong_ways_end_by_themselves_and_fail(family: str, attempt: Attempt) -> None:
    task = next(t for t in TASKS if t.family == family)
    ways = wrong(task)
    assert len({way.name for way in ways}) == 2
    for way in ways:
        ended = attempt(task, way)
        assert ended.reward == 0.0 and ended.turns < 15, way.name


def test_the_error_rate_is_kept_and_follows_the_seed(attempt: Attempt) -> None:
    task = TASKS[0]
    plans = [script(task, seed=seed, error_rate=0.3) for seed in range(40)]
    rewards = [attempt(task, policy).reward for policy in plans[:12]]
    again = [attempt(task, script(task, seed=seed, error_rate=0.3)).reward for seed in range(12)]
    assert rewards == again
    assert 0.0 in rewards and 1.0 in rewards
