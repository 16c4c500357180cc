"""Everything in a file is counted once, and what cannot be read is counted too."""

from collections.abc import Callable
from pathlib import Path

from orchard_cli.errors import Fault
from orchard_cli.outcome import Outcome
from orchard_cli.trajectory import Ledger, Origin, Run, Trajectory, Usage
from orchard_cli.trajectory.stats import stats

Make = Callable[..., Trajectory]
Write = Callable[..., Path]


def test_records_are_counted_by_every_field(make: Make, write: Write) -> None:
    failed = {"outcome": Outcome.INFRA_ERROR, "reward": None, "fault": Fault("sandbox", "infra.gone", "x")}
    unsolved = {"outcome": Outcome.UNSOLVED, "reward": 0.0, "family": "none", "stop": "step_limit"}
    path = write(make(0), make(1, **unsolved), make(2, stage="eval", split="eval", steps=(), **failed))
    got = stats(path)
    assert (got.records, got.counted) == (3, 2)
    assert got.stages == {"distill": 2, "eval": 1} and got.splits == {"train": 2, "eval": 1}
    assert got.outcomes == {"solved": 1, "unsolved": 1, "infra_error": 1}
    assert got.stops == {"submitted": 2, "step_limit": 1} and got.policies == {"tiny": 3}
    assert got.families == {"off_by_one": {"solved": 1, "infra_error": 1}, "none": {"unsolved": 1}}
    assert got.faults == {"infra.gone": 1}
    assert got.usage == Usage(6, 90, 24, 0.003) and got.wall_s == 4.5
    assert got.bytes == path.stat().st_size and not got.unreadable


def test_sampled_is_trainable_plus_masked(make: Make, write: Write) -> None:
    tokens = stats(write(make(0), make(1), make(2, ledgers=()))).tokens
    assert (tokens.total, tokens.sampled, tokens.trainable) == (40, 16, 14)
    assert tokens.masked == {"after_stop": 2}
    assert tokens.origins == {"policy": 16, "template": 16, "environment": 8}
    assert tokens.context == {"context": 16, "observation": 8}
    assert tokens.balanced


def test_a_token_without_account_breaks_the_balance(make: Make, write: Write) -> None:
    for ledger in (
        Ledger((1, 2), (Run(2, Origin.POLICY, 0),), (0.0,)),  # sampled, but one log-probability is missing
        Ledger((1, 2), (Run(1, Origin.POLICY, 0),), (0.0,)),  # an id that no run covers
    ):
        assert not stats(write(make(0, ledgers=(ledger,)))).tokens.balanced


def test_steps_have_nearest_rank_quantiles(make: Make, write: Write) -> None:
    one, two = make().steps
    got = stats(write(*(make(n, steps=(one,) * n) for n in range(1, 11)), make(11, steps=(one, two) * 15)))
    assert got.step_quantiles() == {0.5: 6, 0.9: 10, 1.0: 30}


def test_what_cannot_be_read_is_counted_and_the_first_place_named(make: Make, write: Write) -> None:
    path = write(make(0), b"{", {"id": "x"}, make(1))
    path.write_bytes(path.read_bytes() + b"\x28\xb5")
    got = stats(path)
    assert (got.records, got.unreadable) == (2, {"invalid_json": 1, "missing_field": 1, "torn_tail": 1})
    assert got.first_unreadable.startswith(f"{path}:2 (byte ")


def test_a_file_without_records_has_no_quantiles(write: Write) -> None:
    assert stats(write(b"{")).step_quantiles() == {}
