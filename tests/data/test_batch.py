from hypothesis import given
from hypothesis import strategies as st

from orchard_cli.data.batch import plan, portions, rectangles

lengths = st.lists(st.integers(1, 50), min_size=1, max_size=20)


@given(lengths, st.integers(1, 120), st.integers(1, 600), st.integers(0, 3))
def test_a_plan_reads_its_budget_and_each_epoch_reads_every_example_once(lengths, batch, budget, seed):
    steps = plan(lengths, batch_tokens=batch, budget=budget, seed=seed)
    flat = [i for step in steps for i in step]
    read = sum(lengths[i] for i in flat)
    assert budget <= read < budget + max(sum(lengths[i] for i in steps[-1]), batch) + max(lengths)
    for epoch in range(len(flat) // len(lengths)):
        part = flat[epoch * len(lengths) : (epoch + 1) * len(lengths)]
        assert sorted(part) == list(range(len(lengths)))
    assert all(len(step) == 1 or sum(lengths[i] for i in step) <= batch for step in steps)
    assert steps == plan(lengths, batch_tokens=batch, budget=budget, seed=seed)


def test_seeds_and_epochs_give_different_orders():
    first, second = plan([1] * 30, batch_tokens=30, budget=60, seed=0)
    assert first != second and plan([1] * 30, batch_tokens=30, budget=30, seed=1) != [first]


def test_nothing_to_read_gives_no_steps():
    assert plan([], batch_tokens=5, budget=10, seed=0) == []


@given(lengths, st.integers(1, 200))
def test_rectangles_hold_every_example_once_within_their_area(lengths, area):
    cut = rectangles(lengths, range(len(lengths)), max_tokens=area)
    assert sorted(i for row in cut for i in row) == list(range(len(lengths)))
    assert all(len(row) == 1 or len(row) * max(lengths[i] for i in row) <= area for row in cut)


@given(st.integers(1, 30), st.integers(1, 6))
def test_portions_deal_everything_evenly_and_none_is_empty(n, parts):
    dealt = portions(range(n), parts, seed=0)
    assert sorted(i for part in dealt for i in part) == list(range(n))
    assert max(map(len, dealt)) - min(map(len, dealt)) <= 1 and all(dealt)
