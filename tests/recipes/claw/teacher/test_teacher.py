"""The scripted teacher: it follows the conversation, recovers from faults, and errs by the seed."""

from collections import Counter

import pytest
from orchard_cli.recipes.claw import teacher
from orchard_cli.recipes.claw.speech import ToolSpeech, Turn
from orchard_cli.recipes.claw.tasks.family import make
from orchard_cli.recipes.claw.tasks.library import shipped

from orchard_cli.harness.calls import CALLS
from orchard_cli.task import Task
from orchard_cli.trajectory import Message

STEPS = teacher.plan([{"mail_send": {"to": "a"}}, {"mail_list": {"folder": "sent"}}, {"done": {"answer": "done"}}])


@pytest.fixture
def task() -> Task:
    return make(shipped()["calendar_cancel"], seed=5, split="train")


@pytest.mark.parametrize("word", ["rate_limited: wait 30", "unavailable: try again", "[unavailable]"])
def test_a_passing_fault_is_tried_again(word: str) -> None:
    assert teacher.next_call(STEPS, [Turn(STEPS[0], word)]) == STEPS[0]


def test_a_lost_answer_is_looked_into_before_anything_is_repeated() -> None:
    assert teacher.next_call(STEPS, [Turn(STEPS[0], "timeout: no answer")]) == STEPS[1]


def test_a_service_that_stays_down_is_left_in_the_end() -> None:
    assert teacher.next_call(STEPS, [Turn(STEPS[0], "unavailable")] * teacher.PATIENCE) == STEPS[1]


def test_a_refused_call_is_not_repeated_for_ever() -> None:
    assert teacher.next_call(STEPS, [Turn(STEPS[0], "not_found: no such mail")]) == STEPS[1]


@pytest.mark.parametrize("format", ["calls", "tool"])
def test_it_goes_on_from_where_another_seed_stopped(task: Task, format: str) -> None:
    speech = ToolSpeech(CALLS[format])
    policy = teacher.script(task, seed=0, error_rate=0.0, speech=speech)
    steps = teacher.plan(task.hidden["plan"])
    messages = [Message("user", task.prompt)]
    for step in steps:
        said = policy._respond(messages)
        (made,) = CALLS[format].parse(said)
        assert (made.name, made.arguments) == (step.name, step.arguments)
        messages += [said, Message("user", "ok")]


def test_it_errs_at_the_asked_rate_and_in_every_way_of_the_family(task: Task) -> None:
    ways = Counter(teacher.way(task, seed, 0.3).slip for seed in range(2000))
    assert 0.25 < 1 - ways[""] / 2000 < 0.35
    assert set(ways) == {"", "detour", *task.hidden["wrong"]}


def test_the_same_seed_errs_the_same_way(task: Task) -> None:
    assert all(teacher.way(task, s, 0.5) == teacher.way(task, s, 0.5) for s in range(20))
    assert all(teacher.way(task, s, 0.0).slip == "" for s in range(20))
