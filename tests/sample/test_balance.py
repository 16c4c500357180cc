import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchard_cli.outcome import Outcome
from orchard_cli.sample.balance import Bar, Draw, assemble
from orchard_cli.schema import Group

S, U, T, X = Outcome.SOLVED, Outcome.UNSOLVED, Outcome.TRUNCATED, Outcome.INFRA_ERROR
BAR = Group(size=4, max=12, stride=4, low=0.25, high=0.75)


def drive(group, endings, **options):
    """Feed endings (outcome, or (outcome, length)) as they are wanted, stride by stride."""
    bar, stream, n = Bar(group, **options), iter(endings), 0
    while want := bar.wanted():
        draws = []
        for _ in range(want):
            outcome, length = e if isinstance(e := next(stream), tuple) else (e, 0)
            draws.append(Draw(f"{n:03}", outcome, length))
            n += 1
        bar.add(draws)
    return bar.verdict()


def test_a_balanced_first_stride_stops_early():
    got = drive(BAR, [S, U, S, U])
    assert (got.why, got.strides, got.kept) == ("early", 1, ("000", "002", "001", "003"))


def test_drawing_goes_on_until_the_range_can_be_met():
    got = drive(BAR, [U] * 4 + [U, U, S, U])
    assert (got.why, got.strides, got.kept_solved) == ("early", 2, 1)
    assert got.solved == 1 and got.pool == 8


def test_balance_reached_only_with_the_whole_budget_is_full():
    assert drive(BAR, [U] * 11 + [S]).why == "full"


def test_outside_the_range_the_nearest_mixed_group_is_taken():
    strict = Group(size=4, max=8, stride=4, low=0.5, high=0.5)
    got = drive(strict, [U] * 7 + [S])
    assert (got.why, got.kept_solved, len(got.kept)) == ("relaxed", 1, 4)


def test_groups_of_one_sign_are_dropped_by_name():
    assert drive(BAR, [U] * 12).why == "no_positive"
    assert drive(BAR, [S] * 12).why == "no_negative"
    assert drive(BAR, [S] * 12).kept == ()


def test_too_few_that_count_make_an_honest_short_group_or_none():
    one = Group(size=4, max=4, stride=4)
    mixed = drive(one, [S, U, X, X], redraws=0)
    assert (mixed.why, len(mixed.kept), len(mixed.excluded)) == ("best_effort", 2, 2)
    assert drive(one, [S, X, X, X], redraws=0).why == "short"
    assert drive(one, [X] * 4, redraws=0).why == "short"


def test_attempts_that_do_not_count_are_drawn_again_in_the_same_stride():
    got = drive(BAR, [S, X, U, X, S, U])
    assert (got.why, got.strides, got.excluded) == ("early", 1, ("001", "003"))


def test_removing_what_does_not_count_leaves_the_same_group():
    endings = [(S, 3), (U, 9), (U, 2), (U, 1), (U, 5), (S, 1), (U, 1), (U, 2)]
    clean = drive(Group(4, 8, 4, 0.5, 0.5), endings)
    bar, n = Bar(Group(4, 8, 4, 0.5, 0.5)), 0
    while bar.wanted():  # each real ending is preceded by a fault
        bar.add([Draw(f"x{n}", X)] if n < 8 else [])
        bar.add([Draw(f"{n:03}", *endings[n])])
        n += 1
    assert bar.verdict().kept == clean.kept


def test_within_a_sign_completed_comes_before_cut_and_short_before_long():
    pool = [Draw("a", U, 9), Draw("b", T, 1), Draw("c", U, 3), Draw("d", S, 8), Draw("e", S, 2)]
    assert [d.id for d in assemble(pool, 4, 0.5, 0.5)] == ["e", "d", "c", "a"]
    assert [d.id for d in assemble(pool, 4, 0.25, 0.25)] == ["e", "c", "a", "b"]


def test_an_attempt_that_time_cut_only_fills_up_a_best_effort_group():
    one = Group(size=4, max=4, stride=4)
    bar = Bar(one)
    bar.add([Draw("a", S), Draw("b", T, backfill=True), Draw("c", S), Draw("d", U)])
    assert (bar.verdict().why, bar.verdict().kept) == ("best_effort", ("a", "c", "d", "b"))


def test_a_fixed_group_keeps_all_it_drew():
    fixed = Group(size=4, max=4, stride=4, low=0.0, high=1.0)
    got = drive(fixed, [U, U, S, U])
    assert (got.why, sorted(got.kept), got.discarded) == ("full", ["000", "001", "002", "003"], ())


def test_more_than_was_wanted_is_refused():
    with pytest.raises(ValueError, match="5 attempts came, 4 were wanted"):
        Bar(BAR).add([Draw(str(i), S) for i in range(5)])


@st.composite
def groups(draw):
    stride, waves = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    size = draw(st.integers(1, stride * waves))
    low, high = sorted((draw(st.floats(0, 1)), draw(st.floats(0, 1))))
    return Group(size, stride * waves, stride, low, high)


@given(groups(), st.lists(st.sampled_from(list(Outcome)), min_size=60, max_size=60), st.integers(0, 6))
def test_whatever_comes_the_account_is_whole_and_the_promises_hold(group, endings, redraws):
    got = drive(group, endings, redraws=redraws)
    ids = [*got.kept, *got.discarded, *got.excluded]
    drawn = endings[: len(ids)]
    assert sorted(ids) == [f"{i:03}" for i in range(len(ids))], "each attempt is in exactly one list"
    assert all(endings[int(i)].counts for i in got.kept + got.discarded)
    assert got.pool <= group.max and len(got.excluded) <= redraws + group.max
    assert got.solved == sum(o is S for o in drawn)
    solved = sum(endings[int(i)] is S for i in got.kept)
    assert solved == got.kept_solved
    if got.kept:
        assert 0 < solved < len(got.kept)
        assert len(got.kept) == group.size or (got.why == "best_effort" and len(got.kept) < group.size)
    if got.why in ("early", "full"):
        assert group.low - 1e-6 <= solved / group.size <= group.high + 1e-6
    if got.why == "early":
        assert got.strides < group.max // group.stride
