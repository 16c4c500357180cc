"""What counts as growth, and that cycles leave nothing."""

from orchard_cli.env.bench.growth import Growth, growth
from orchard_cli.env.bench.more import More, tables

BEFORE = {"mounts": 20.0, "our memory, MB": 30.0}


def grown(**after: float) -> list[str]:
    return Growth(10, 0, 1.0, BEFORE, {**BEFORE, **after}, stopped=False).grown


def test_one_more_mount_is_growth_and_a_few_pages_are_not() -> None:
    assert grown(mounts=21) == ["mounts"]
    assert grown(**{"our memory, MB": 30.5}) == []
    assert grown(**{"our memory, MB": 32.0}) == ["our memory, MB"]


def test_cycles_leave_nothing_and_are_told_as_a_table() -> None:
    found = growth(5, 0, lambda text: None, warm=1)
    assert (found.cycles, found.failed) == (5, 0)
    assert not [name for name in found.grown if not name.endswith("MB")]


def test_nothing_is_measured_that_was_not_asked_for() -> None:
    assert not More().any
    assert tables(More().measure(1, lambda text: None)) == []
