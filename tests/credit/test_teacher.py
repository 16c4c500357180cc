import pytest

from orchard_cli.credit.teacher import judge, parse, prompt
from orchard_cli.errors import DataError, PolicyError
from orchard_cli.policy.policy import Sampling
from orchard_cli.policy.scripted import ScriptedPolicy
from orchard_cli.trajectory import Message

from .toy import TASK, attempt

GOOD = '[{"step": 0, "p": 0.1}, {"step": 2, "p": 0.7}]'


def says(*texts):
    return ScriptedPolicy.replies("judge", [Message("assistant", text) for text in texts])


def test_the_prompt_shows_every_step_its_observation_clipped_and_the_true_outcome():
    shown = prompt(attempt("look", "x" * 50, "{{ 7 * 7 }}"), TASK, observation_chars=20)
    assert all(f"## Step {i}" in shown for i in range(3))
    assert "make it 3" in shown
    assert "unsolved" in shown and "34 characters left out" in shown
    assert "{{ 7 * 7 }}" in shown, "text of the attempt is never evaluated"


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"Well.\n```json\n{GOOD}\n```\nDone [1].",
        f'{{"anchors": {GOOD}}}',
        f"First [ {GOOD}",
        f"[] x {GOOD}",
        GOOD.replace("}]", ', "seen": [{}]}]'),
    ],
)
def test_anchors_are_found_whatever_stands_around_them(text):
    assert [(a.step, a.value) for a in parse(text, 4, resolved=False).anchors] == [(0, 0.1), (2, 0.7), (4, 0.0)]


@pytest.mark.parametrize(
    "text",
    [
        "no idea",
        '[{"step": 0}]',
        '[{"step": "0", "p": 0.5}]',
        '[{"step": true, "p": 0.5}]',
        '[{"step": 0, "p": "high"}]',
        '[{"step": 0, "p": 1.2}]',
        '[{"step": 0, "p": NaN}]',
        '[{"step": 0, "p": 1e999}]',
        '[{"step": 0, "p": 1' + "0" * 400 + "}]",
        '[{"step": 9, "p": 0.2}]',
        '[{"step": 2, "p": 0.2}, {"step": 0, "p": 0.1}]',
        '[{"step": 4, "p": 0.2}]',
        "[" * 100_000,
        '[{"step":' * 20_000,
    ],
)
def test_bad_anchors_are_refused(text):
    with pytest.raises(DataError):
        parse(text, 4, resolved=False)


def test_a_bad_answer_is_asked_again_once_and_counted():
    found = judge(attempt("a", "b", "c"), TASK, says("hm", GOOD), Sampling())
    assert found.curve and found.problems == {"bad_answer": 1} and found.usage.calls == 2


def test_two_bad_answers_leave_the_attempt_out():
    found = judge(attempt("a", "b", "c"), TASK, says("hm"), Sampling())
    assert found.curve is None and found.problems == {"bad_answer": 2} and "no JSON list" in found.note


def test_an_endpoint_that_fails_leaves_the_attempt_out_and_is_named():
    def fail(messages):
        raise PolicyError("too long", code="context_overflow")

    found = judge(attempt("a"), TASK, ScriptedPolicy("judge", fail), Sampling())
    assert found.curve is None and found.problems == {"context_overflow": 1}
