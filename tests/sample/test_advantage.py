import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchard_cli.errors import ConfigError
from orchard_cli.sample.advantage import advantages


def test_group_baseline_with_deviation_is_grpo():
    got = advantages([1.0, 0.0, 0.0, 0.0], [], baseline="group", scale="std")
    assert got == pytest.approx((1.5, -0.5, -0.5, -0.5), rel=1e-5)


def test_without_scale_it_is_the_centred_reward():
    assert advantages([1.0, 0.0], [], baseline="group", scale="none") == (0.5, -0.5)


def test_the_baseline_of_all_draws_keeps_how_hard_the_task_is():
    kept, pool = [1.0, 0.0], [1.0] + [0.0] * 7
    assert advantages(kept, pool, baseline="all_sampled", scale="none") == (0.875, -0.125)


def test_the_length_baseline_gives_every_token_together_no_push():
    lengths = [10, 30, 20, 40]
    got = advantages([1.0, 0.0, 1.0, 0.0], [], baseline="length", scale="none", lengths=lengths)
    assert got == pytest.approx((0.7, -0.3, 0.7, -0.3))
    assert sum(n * a for n, a in zip(lengths, got, strict=True)) == pytest.approx(0.0)


def test_equal_rewards_give_no_group_even_when_the_deviation_is_not_quite_zero():
    assert advantages([0.1 + 0.2, 0.3], [0.3], baseline="group", scale="std") is None
    assert advantages([0.0] * 4, [1.0], baseline="all_sampled", scale="std") is None
    assert advantages([], [], baseline="group", scale="std") is None


@given(st.permutations([0.1, 0.7, 0.2, 0.9, 0.4]), st.sampled_from(["group", "all_sampled"]))
def test_no_order_of_attempts_changes_a_bit(order, baseline):
    def by_reward(rewards):
        return dict(zip(rewards, advantages(rewards, rewards, baseline=baseline, scale="std"), strict=True))

    assert by_reward(order) == by_reward(sorted(order))


def test_unknown_choices_are_named():
    with pytest.raises(ConfigError, match="rl.baseline is `mean`"):
        advantages([0.0, 1.0], [], baseline="mean", scale="std")
    with pytest.raises(ConfigError, match="rl.scale is `var`"):
        advantages([0.0, 1.0], [], baseline="group", scale="var")
