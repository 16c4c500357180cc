import pytest

from orchard_cli.credit.rise import rising
from orchard_cli.credit.value import Anchor, curve
from orchard_cli.errors import ConfigError


def rises(steps, *anchors, rule="interval", epsilon=0.05):
    made = curve(steps, tuple(Anchor(*a) for a in anchors), resolved=False)
    return rising(made, epsilon=epsilon, rule=rule)


@pytest.mark.parametrize("rule", ["step", "interval"])
def test_plateaus_and_falls_hold_no_rise(rule):
    assert rises(6, (0, 0.5), (3, 0.5), rule=rule) == ()
    assert rises(6, (0, 0.9), (3, 0.5), rule=rule) == ()
    assert rises(6, (2, 0.5), rule=rule) == ()


@pytest.mark.parametrize("rule", ["step", "interval"])
def test_a_rise_of_exactly_epsilon_counts(rule):
    assert rises(3, (0, 0.10), (1, 0.15), rule=rule) == ((0, 1),)
    assert rises(3, (0, 0.10), (1, 0.1499), rule=rule) == ()


def test_a_slow_climb_is_lost_by_the_step_rule_and_kept_by_the_interval_rule():
    slow = ((0, 0.0), (10, 0.3))
    assert rises(12, *slow, rule="step") == ()
    assert rises(12, *slow, rule="interval") == ((0, 10),)


@pytest.mark.parametrize("rule", ["step", "interval"])
def test_neighbouring_rises_become_one_maximal_segment_and_a_fall_parts_them(rule):
    anchors = ((0, 0.0), (1, 0.2), (2, 0.4), (3, 0.1), (4, 0.5))
    assert rises(6, *anchors, rule=rule) == ((0, 2), (3, 4))


def test_an_unknown_rule_is_a_configuration_error():
    with pytest.raises(ConfigError, match="credit.rule is `steps`"):
        rises(2, (0, 0.1), rule="steps")
