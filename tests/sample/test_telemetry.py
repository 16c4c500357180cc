from orchard_cli.outcome import Outcome
from orchard_cli.sample.balance import Bar, Draw
from orchard_cli.sample.telemetry import telemetry
from orchard_cli.schema import Group


def verdict(endings, group):
    bar, stream = Bar(group), enumerate(endings)
    while want := bar.wanted():
        bar.add([Draw(f"{i}", outcome) for i, outcome in (next(stream) for _ in range(want))])
    return bar.verdict()


def test_sampled_is_used_and_discarded_and_excluded_and_rates_are_of_the_pool():
    S, U, X = Outcome.SOLVED, Outcome.UNSOLVED, Outcome.INFRA_ERROR
    group = Group(2, 4, 2, 0.5, 0.5)
    got = telemetry([verdict([S, U], group), verdict([U, X, U, U, S], group), verdict([U] * 4, group)])
    assert (got.sampled, got.used, got.discarded, got.excluded) == (11, 4, 6, 1)
    assert got.why == {"early": 1, "full": 1, "no_positive": 1} and got.strides == {1: 1, 2: 2}
    assert got.pass_rate == 0.2 and got.kept_pass_rate == 0.5 and got.per_group == 5.5


def test_an_empty_step_has_no_rates():
    got = telemetry([])
    assert got.pass_rate is None and got.per_group is None
