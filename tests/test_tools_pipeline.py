"""The whole road for an agent with tools: what a script does with them, a tiny policy learns to write as calls."""

import json
from pathlib import Path

import pytest

from orchard_cli.errors import ConfigError
from orchard_cli.launch.local import launch, look
from orchard_cli.trajectory import read
from orchard_cli.trajectory.verify import verify

SMALL = [
    "distill.attempts=3",
    "model.hidden=64",
    "model.layers=2",
    "model.ffn=128",
    "model.heads=2",
    "model.vocab=300",
    "model.threads=1",
    "sft.tokens=8000",
    "sft.batch_tokens=200",
    "harness.max_steps=4",
    "harness.max_tokens=48",
    "eval.temperatures=[0.0]",
    "eval.policy=sft",
    "env.concurrency=4",
]


@pytest.mark.parametrize("format", ["calls", "tool"])
def test_a_tiny_policy_learns_to_use_tools(echo: Path, format: str) -> None:
    words = [*SMALL, f"harness.format={format}"]
    for stage in ("distill", "credit", "sft", "eval"):
        launch("counter", stage, words)
    root = echo / "runs" / "counter" / "demo"
    files = list(root.rglob("*.jsonl.zst"))
    assert len(files) == 2 and all(verify(file).ok for file in files)
    for t in read(root / "distill" / "trajectories.jsonl.zst"):
        assert bool(t.tools) == (format == "tool") and t.harness == "react"
    account = json.loads((root / "sft" / "account.json").read_text())
    assert account["trained"] > 0 and account["masked"] == {}
    made = list(read(next((root / "eval" / "trajectories").iterdir())))
    assert all(t.stop == "submitted" and t.ledgers for t in made)
    assert sum(t.reward == 1.0 for t in made) >= 2, [t.steps[0].action for t in made]


@pytest.mark.parametrize("format", ["calls", "tool"])
def test_a_domain_with_tools_is_checked(echo: Path, format: str) -> None:
    assert look("counter", "check", [f"harness.format={format}"])


def test_credit_from_forks_is_refused_where_tools_hold_the_state(echo: Path) -> None:
    words = ["teacher.error_rate=1.0", "distill.attempts=1", "credit=branch"]
    launch("counter", "distill", words)
    with pytest.raises(ConfigError, match="harness.kind=react") as caught:
        launch("counter", "credit", words)
    assert "credit=none" in caught.value.hint


def test_a_harness_that_is_not_the_domains_is_refused(echo: Path) -> None:
    for domain, harness, hint in (("counter", "mini", "harness=react"), ("echo", "react", "harness=mini")):
        with pytest.raises(ConfigError) as caught:
            launch(domain, "distill", [f"harness={harness}"])
        assert caught.value.hint == hint
