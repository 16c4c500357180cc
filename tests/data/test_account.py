import pytest

from orchard_cli.data.account import Account
from orchard_cli.data.example import learn, sequences
from orchard_cli.errors import RunError

from .made import attempt


def test_a_token_that_never_ended_stops_the_run():
    account = Account()
    account.open(5)
    account.drop(4, "too_long")
    with pytest.raises(RunError, match="does not close: sampled 5, trained 0"):
        account.check()


def test_context_is_counted_apart_and_sums_add_up():
    example = learn(next(sequences(attempt("ttepp"))), steps=None, otherwise="")
    account = Account()
    account.open(2)
    account.keep(example)
    account.check()
    both = account + account
    assert both.record() == {
        "sampled": 4,
        "trained": 4,
        "masked": {},
        "dropped": {},
        "context": 6,
        "sequences": 2,
        "left_out": {},
    }
