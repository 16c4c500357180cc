from orchard_cli.credit.branch import before, measure, spread
from orchard_cli.policy.policy import Sampling
from orchard_cli.policy.scripted import ScriptedPolicy
from orchard_cli.rollout import derive_seed
from orchard_cli.trajectory import Message

from .toy import TASK, MemoryEnv, Toy, adds_until, attempt


def run(trajectory, policy, *, domain=None, env=None, samples=2, anchors=9):
    return measure(
        trajectory,
        TASK,
        domain or Toy(),
        env or MemoryEnv(),
        policy,
        Sampling(),
        samples=samples,
        anchors=anchors,
        seed=0,
    )


def test_the_value_falls_where_the_mistake_was_made():
    env = MemoryEnv()
    found = run(attempt("look", "add", "add", "add", "add", "submit"), adds_until(3), env=env)
    assert [(a.step, a.value, a.n) for a in found.curve.anchors] == [
        (0, 1.0, 2),
        (2, 1.0, 2),
        (3, 1.0, 2),
        (4, 1.0, 2),
        (5, 0.0, 2),  # the fourth add cannot be taken back
        (6, 0.0, 0),
    ]
    assert all(s.closed for s in env.made), "every sandbox and fork is closed"


def test_the_value_rises_where_a_weak_finisher_is_helped():
    def weak(messages):  # adds once at most by itself
        own = [m.content for m in messages if m.role == "assistant"]
        return Message("assistant", "submit" if own and own[-1] == "own" else "add" if len(own) < 3 else "submit")

    found = run(attempt("look", "add", "add", "add", "submit"), lambda seed: ScriptedPolicy("weak", weak))
    assert [a.value for a in found.curve.anchors] == [1.0, 0.0, 0.0, 1.0, 0.0]


def test_the_attempt_is_replayed_once_and_never_its_last_step():
    env = MemoryEnv()
    run(attempt("look", "add", "look", "submit"), adds_until(3), env=env, samples=1)
    assert env.commands[:3] == ["look", "add", "look"]
    assert env.commands.count("look") == 2


def test_key_steps_keep_the_budget_and_hold_the_first_and_the_last():
    found = run(attempt(*["add"] * 7, "submit"), adds_until(3), anchors=4)
    steps = [a.step for a in found.curve.anchors]
    assert len(steps) == 4 and steps[0] == 0 and steps[-2:] == [7, 8]
    assert spread([0, 1, 2, 3, 4, 5, 6], 3) == [0, 3, 6] and spread([0, 1], 3) == [0, 1] and spread([0, 1], 1) == [0]


def test_errors_of_the_verifier_leave_the_count_and_are_counted():
    found = run(attempt("look", "submit"), adds_until(3), domain=Toy(broken_grades=1))
    assert found.curve.anchors[0].n == 1 and found.curve.anchors[0].value == 1.0
    assert found.problems == {"grade.timeout": 1}


def test_an_attempt_without_any_measured_anchor_has_no_curve():
    found = run(attempt("look", "submit"), adds_until(3), domain=Toy(broken_grades=99))
    assert found.curve is None and found.problems == {"grade.timeout": 2}


def test_a_sandbox_that_breaks_in_the_replay_is_a_problem_and_not_an_exception():
    env = MemoryEnv()
    found = run(attempt("crash", "add", "submit"), adds_until(3), env=env)
    assert found.curve is None and found.problems == {"sandbox.agent_unreachable": 1}
    assert all(s.closed for s in env.made)


def test_a_replay_that_departs_from_the_record_ends_the_measuring_there():
    found = run(attempt("add", "look", "add", "submit", exits={1: 7}), adds_until(3))
    assert [a.step for a in found.curve.anchors] == [0, 1, 4] and found.problems == {"replay_departed": 1}


def test_the_prefix_ends_right_before_the_reply_of_its_step():
    prefix = before(attempt("look", "add", "submit"), 1)
    assert [m.content for m in prefix.messages] == ["make it 3", "look", "saw look"] and len(prefix.steps) == 1
    assert len(before(attempt("look"), 0).messages) == 1


def test_draws_differ_by_place_and_are_the_same_again():
    drawn = {derive_seed(s, t, a, k) for s in (0, 1) for t in "ab" for a in (0, 1) for k in (0, 1)}
    assert len(drawn) == 16 and derive_seed(0, "a", 0, 0) in drawn


def test_what_runs_is_copied_where_that_can_be_had():
    env = MemoryEnv(copies_processes=True)
    found = run(attempt("look", "add and serve", "add", "submit"), adds_until(3), env=env, samples=1)
    assert sum(s.alive for s in env.made) == 5  # the replay, two forks on its way, and a finish from each
    assert found.problems == {} and all(s.closed for s in env.made)


def test_what_runs_and_cannot_be_copied_is_counted():
    env = MemoryEnv()
    found = run(attempt("look", "add and serve", "add", "submit"), adds_until(3), env=env, samples=1)
    assert found.problems == {"processes_not_copied": 2}
    assert len(found.curve.anchors) == 4 and all(s.closed for s in env.made)
