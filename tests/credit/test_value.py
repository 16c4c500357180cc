import pytest

from orchard_cli.credit.value import Anchor, curve
from orchard_cli.errors import DataError


def values(steps, *anchors, resolved=False):
    return curve(steps, tuple(Anchor(*a) for a in anchors), resolved=resolved).values()


def test_anchors_at_both_ends_are_joined_by_a_straight_line():
    assert values(4, (0, 0.8), (4, 0.0)) == pytest.approx((0.8, 0.6, 0.4, 0.2, 0.0))


def test_a_single_anchor_is_held_before_and_falls_to_the_known_end_after():
    assert values(4, (2, 0.6)) == pytest.approx((0.6, 0.6, 0.6, 0.3, 0.0))


def test_a_plateau_stays_flat():
    assert values(3, (0, 0.5), (2, 0.5)) == pytest.approx((0.5, 0.5, 0.5, 0.0))


def test_a_resolved_attempt_ends_at_one():
    assert values(2, (0, 0.5), resolved=True) == pytest.approx((0.5, 0.75, 1.0))


@pytest.mark.parametrize(
    ("anchors", "says"),
    [
        (((2, 0.1), (1, 0.2)), "step 1 follows step 2"),
        (((1, 0.1), (1, 0.2)), "step 1 follows step 1"),
        (((5, 0.1),), "step 5 is outside 0 … 4"),
        (((-1, 0.1),), "step -1 is outside"),
        (((0, 1.5),), "value 1.5 is outside"),
        (((0, float("nan")),), "value nan is outside"),
        (((0, 0.1), (4, 0.3)), "the end says 0.3, but the outcome is 0"),
        ((), "needs a step and an anchor"),
    ],
)
def test_bad_anchors_are_refused_by_name(anchors, says):
    with pytest.raises(DataError, match=says):
        values(4, *anchors)


def test_a_curve_has_one_value_for_each_state():
    for steps in range(1, 6):
        for at in range(steps):
            assert len(values(steps, (at, 0.3))) == steps + 1
