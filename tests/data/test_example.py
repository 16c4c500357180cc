import pytest

from orchard_cli.data.example import chosen, from_ledger, from_render, learn, rising_steps, sequences, turns
from orchard_cli.errors import ConfigError
from orchard_cli.outcome import Outcome

from .made import attempt, render


def weights(example):
    return "".join("1" if w else "0" for w in example.weights)


def tokens(letters, **kw):
    return next(sequences(attempt(letters, **kw)))


def test_all_policy_tokens_of_a_resolved_attempt_are_learned_and_nothing_else():
    got = learn(tokens("tteppteepp"), steps=None, otherwise="not_rising")
    assert weights(got) == "0001100011"
    assert got.masks == ((2, "template"), (1, "environment"), (2, ""), (1, "template"), (2, "environment"), (2, ""))
    assert (got.sampled, got.trained) == (4, 4)


def test_only_the_chosen_steps_are_learned_and_the_whole_history_stays():
    got = learn(tokens("tppeppepp"), steps=rising_steps([(1, 2)]), otherwise="not_rising")
    assert weights(got) == "000011000" and got.ids == tuple(range(9))
    assert (2, "not_rising") in got.masks and got.sampled == 6


def test_log_probabilities_stand_at_their_tokens():
    assert tokens("tpep").logprobs == (0.0, -0.5, 0.0, -0.5)


def test_a_first_token_that_nothing_predicts_is_masked_by_name():
    got = learn(tokens("ppe"), steps=None, otherwise="")
    assert weights(got) == "010" and got.masks[0] == (1, "first_token")


def test_without_tokens_the_messages_are_rendered_and_each_reply_finds_its_step():
    (got,) = from_render(attempt("tpepp", ledger=False), render("ttpeetppp"))
    assert [(p.step, p.stop - p.start) for p in got.pieces if p.origin == "policy"] == [(0, 1), (1, 3)]


@pytest.mark.parametrize("letters", ["ttpe", "tpepep", "tttt"])
def test_a_template_that_loses_or_splits_a_reply_gives_no_tokens(letters):
    assert from_render(attempt("tpepp", ledger=False), render(letters)) == []


def test_a_ledger_is_never_rendered_again():
    got = list(sequences(attempt("tpe"), render("pppppp")))
    assert [t.ids for t in got] == [(0, 1, 2)]


def test_policy_tokens_of_a_second_ledger_have_no_step():
    one = attempt("tpep")
    assert [p.step for p in from_ledger(one, one.ledgers[0], number=1).pieces] == [-1] * 4


@pytest.mark.parametrize(
    ("outcome", "unresolved", "ranges", "steps", "reason"),
    [
        (Outcome.SOLVED, "none", None, None, ""),
        (Outcome.UNSOLVED, "none", ((0, 1),), {}, "unresolved"),
        (Outcome.UNSOLVED, "full", None, None, ""),
        (Outcome.TRUNCATED, "rise", ((0, 2),), {0: 1.0, 1: 1.0}, ""),
        (Outcome.UNSOLVED, "rise", (), {}, "no_rise"),
        (Outcome.UNSOLVED, "rise", None, {}, "no_rise"),
        (Outcome.INFRA_ERROR, "full", None, {}, "outcome_infra_error"),
    ],
)
def test_the_sft_rule(outcome, unresolved, ranges, steps, reason):
    assert chosen(outcome, ranges, unresolved) == (steps, reason)


def test_an_unknown_rule_is_named():
    with pytest.raises(ConfigError, match="sft.unresolved is `some`"):
        chosen(Outcome.UNSOLVED, None, "some")


def test_each_turn_alone_keeps_what_came_before_as_context():
    (whole,) = sequences(attempt("tpepptp"))
    parts = list(turns(whole))
    assert [p.ids for p in parts] == [whole.ids[:2], whole.ids[:5], whole.ids[:7]]
    assert [p.sampled for p in parts] == [1, 2, 1] and sum(p.sampled for p in parts) == whole.sampled
    assert [[q.step for q in p.pieces if q.origin == "policy"] for p in parts] == [[0], [1], [2]]
    learned = learn(parts[1], steps={1: 1.0}, otherwise="not_rising")
    assert learned.weights == (0.0, 0.0, 0.0, 1.0, 1.0) and learned.masks[1] == (2, "environment")
