import msgspec
from hypothesis import given
from hypothesis import strategies as st

from orchard_cli.data.build import rl_group, sft_examples
from orchard_cli.outcome import Outcome

from .made import attempt, render

S, U, X = Outcome.SOLVED, Outcome.UNSOLVED, Outcome.INFRA_ERROR


def build(*trajectories, rising=None, unresolved="rise", max_length=100, **kw):
    return sft_examples(trajectories, rising or {}, unresolved=unresolved, max_length=max_length, **kw)


def test_every_way_to_leave_an_attempt_out_has_a_name():
    examples, account = build(
        attempt("tpp"),
        attempt("tpp", name="again"),
        attempt("tppp", U, name="flat"),
        attempt("tpep", U, name="rise", first=50),
        attempt("tp" + "e" * 200, name="long"),
        attempt("tpppp", X, name="infra"),
        attempt("tppp", name="bare", ledger=False),
        attempt("p", name="one", first=9),
        rising={"rise": ((1, 2),)},
    )
    assert [e.trajectory for e in examples] == ["a", "rise"]
    assert account.dropped == {
        "duplicate": 2,
        "no_rise": 3,
        "too_long": 1,
        "outcome_infra_error": 4,
        "no_tokens": 3,
        "nothing_trained": 1,
    }
    assert (account.sampled, account.trained, account.masked) == (18, 3, {"not_rising": 1})


def test_an_attempt_without_tokens_is_rendered_when_a_template_is_given():
    examples, account = build(attempt("tpp", ledger=False), render=render("ttppp"))
    assert examples[0].trained == 3 == account.trained


def test_a_group_keeps_those_with_an_advantage_and_counts_the_rest():
    attempts = [attempt("tpp", S, name="s"), attempt("tp", U, name="u"), attempt("tppp", U, name="d"), attempt("tp", X)]
    examples, account = rl_group(attempts, {"s": 1.0, "u": -1.0}, max_length=100)
    assert [(e.trajectory, e.advantage, e.weight_version) for e in examples] == [("s", 1.0, 0), ("u", -1.0, 0)]
    assert account.dropped == {"discarded": 3, "outcome_infra_error": 1} and account.trained == 3


def test_attempts_that_do_not_count_leave_the_same_examples_bit_for_bit():
    clean = [attempt("tpp", S, name="s"), attempt("tp", U, name="u")]
    noisy = [attempt("tpp", X, name="x"), clean[0], attempt("tpp", X, name="y"), clean[1]]
    advantages = {"s": 0.3, "u": -0.1, "x": 9.9}
    assert rl_group(noisy, advantages, max_length=9)[0] == rl_group(clean, advantages, max_length=9)[0]


def of(task, family, letters, name, outcome=S):
    made = attempt(letters, outcome, name=name, first=100 * int(name))
    return msgspec.structs.replace(made, task_id=task, family=family)


def test_the_shortest_successes_of_a_task_and_of_a_family_are_kept_and_the_rest_is_counted():
    found = [
        of("a", "x", "tpepep", "0"),
        of("a", "x", "tpep", "1"),
        of("a", "x", "tpepp", "2"),  # as many steps as the one before, more tokens
        of("a", "x", "tp", "3", U),
        of("b", "x", "tpepepepep", "4"),
        of("c", "y", "tpepepepepep", "5"),
        of("d", "", "tp", "6"),
        of("e", "", "tp", "7"),
    ]
    kept, account = build(*found, unresolved="none", per_task=1, per_family=1)
    assert [e.trajectory for e in kept] == ["1", "5", "6", "7"]
    assert account.dropped == {"per_task": 3 + 3, "per_family": 5, "unresolved": 1}
    assert account.left_out == {"per_task": 2, "per_family": 1, "unresolved": 1}
    kept, account = build(*found, unresolved="full", per_task=2)
    assert [e.trajectory for e in kept] == ["1", "2", "3", "4", "5", "6", "7"] and account.dropped == {"per_task": 3}


letters = st.text("tep", min_size=1, max_size=12)
one = st.tuples(letters, st.sampled_from(list(Outcome)), st.booleans(), st.booleans())


@given(st.lists(one, max_size=8), st.sampled_from(["rise", "full", "none"]), st.integers(0, 12), st.integers(0, 3))
def test_every_sampled_token_ends_exactly_once(drawn, unresolved, max_length, per_task):
    attempts = [attempt(text, o, name=str(i), first=i, ledger=led) for i, (text, o, led, _) in enumerate(drawn)]
    rising = {str(i): ((0, 1),) for i, (*_, up) in enumerate(drawn) if up}
    examples, account = build(*attempts, rising=rising, unresolved=unresolved, max_length=max_length, per_task=per_task)
    assert account.sampled == sum(text.count("p") for text, *_ in drawn)
    assert account.trained == sum(w > 0 for e in examples for w in e.weights)
    assert account.kept == len(examples)
    assert all(sum(n for n, _ in e.masks) == len(e.ids) == len(e.weights) for e in examples)
    assert account.kept + account.left_out.total() == len(drawn)
