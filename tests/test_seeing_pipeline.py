"""The whole road for an agent that sees: what a script says of pictures, a tiny vision-language policy learns."""

import json
from pathlib import Path

import pytest

from orchard_cli.errors import ConfigError
from orchard_cli.launch.local import launch
from orchard_cli.trajectory import read
from orchard_cli.trajectory.verify import verify

SMALL = [
    "model=tiny_vl",
    "model.hidden=48",
    "model.heads=2",
    "model.ffn=64",
    "model.vocab=320",
    "model.threads=1",
    "distill.attempts=1",
    "distill.limit=0",
    "sft.tokens=12000",
    "sft.batch_tokens=400",
    "harness.max_steps=3",
    "harness.max_tokens=16",
    "rl.steps=1",
    "rl.prompts=2",
    "rl.group.low=0",
    "rl.group.high=1",
    "rl.group.size=4",
    "rl.group.max=4",
    "eval.temperatures=[0.0]",
    "eval.policy=sft",
    "env.concurrency=4",
]


def test_a_tiny_policy_learns_what_it_sees(echo: Path) -> None:
    words = [*SMALL, "harness.images=1"]
    for stage in ("distill", "sft", "rl", "eval"):
        launch("swatch", stage, words)
    root = echo / "runs" / "swatch" / "demo"
    files = list(root.rglob("*.jsonl.zst"))
    assert len(files) == 3 and all(verify(file).ok for file in files), [verify(f).problems for f in files]
    account = json.loads((root / "sft" / "account.json").read_text())
    assert account["sequences"] > 12 and account["trained"] == account["sampled"], "a segment for each picture"
    made = list(read(next((root / "eval" / "trajectories").iterdir())))
    assert sum(t.reward == 1.0 for t in made) >= 6, [t.steps[0].action for t in made]
    for t in made:
        assert [len(ledger.images) for ledger in t.ledgers] == [1] * len(t.steps)
        assert [step.ledger for step in t.steps] == list(range(len(t.steps)))
    (update,) = [json.loads(line)["update"] for line in (root / "rl" / "steps.jsonl").read_text().splitlines()]
    assert update["mismatch_max"] < 0.2
    for folder in ("sft/base", "sft/checkpoint", "rl/checkpoint"):
        assert (root / folder / "preprocessor_config.json").is_file()


def test_a_text_model_is_told_what_to_change(echo: Path) -> None:
    words = [word for word in SMALL if word != "model=tiny_vl"]
    launch("swatch", "distill", words)
    with pytest.raises(ConfigError, match="reads text alone, but the conversation has pictures") as caught:
        launch("swatch", "sft", words)
    assert "domain.view" in caught.value.hint
