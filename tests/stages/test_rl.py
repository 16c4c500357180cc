"""What rl makes of its settings before anything is sampled."""

from dataclasses import replace
from pathlib import Path

import pytest

from orchard_cli import schema
from orchard_cli.compose import compose
from orchard_cli.console import Console
from orchard_cli.errors import ConfigError
from orchard_cli.launch.local import launch, make_context
from orchard_cli.outcome import Outcome
from orchard_cli.runs.rundir import RunDir
from orchard_cli.stages.rl import _reward, sampling
from orchard_cli.trajectory import Trajectory


def turns(*words: str) -> list[int]:
    composed = compose("echo", list(words))
    context = make_context(composed, RunDir.of("echo", composed.config), Console())
    return [sampling(context, step).turns for step in range(composed.config.rl.steps)]


def test_turns_grow_from_the_first_update_to_the_last(echo: Path) -> None:
    assert turns("rl.steps=4", "rl.first_turns=15", "harness.max_steps=30") == [15, 20, 25, 30]
    assert turns("rl.steps=1", "rl.first_turns=15", "harness.max_steps=30") == [15]
    assert turns("rl.steps=2") == [0, 0]


def test_only_attempts_that_ended_unparsable_pay_the_format_penalty() -> None:
    failed = Trajectory("a", "t", "echo", "p", "mini", (), (), Outcome.UNSOLVED, "submitted", reward=0.0)
    invalid = Trajectory("b", "t", "echo", "p", "mini", (), (), Outcome.POLICY_INVALID, "format_errors", reward=0.0)
    rl = replace(schema.Rl(), format_penalty=1.0)
    assert (_reward(failed, rl), _reward(invalid, rl), _reward(invalid, schema.Rl())) == (0.0, -1.0, 0.0)


def test_a_run_whose_credit_cannot_be_measured_is_refused_before_it_begins(echo: Path) -> None:
    with pytest.raises(ConfigError, match="credit=branch cannot go back"):
        launch("counter", "run", ["credit=branch"])
    assert not list(Path("runs").rglob("trajectories*"))
