"""Training turns with pictures: what is learned depends on the picture, the tower stays as it is."""

import random
from pathlib import Path
from typing import Any

import pytest
import torch

from orchard_cli import schema
from orchard_cli.data.build import rl_group, sft_examples
from orchard_cli.data.example import Example
from orchard_cli.errors import DataError
from orchard_cli.harness.ledger import LedgerBuilder
from orchard_cli.outcome import Outcome
from orchard_cli.policy.chat import Chat
from orchard_cli.policy.hf import HfPolicy
from orchard_cli.policy.policy import Sampling
from orchard_cli.policy.sight import Sight
from orchard_cli.train.compute import Compute
from orchard_cli.train.optim import build
from orchard_cli.train.rl import update_rl
from orchard_cli.train.rows import collate
from orchard_cli.train.sft import train_sft
from orchard_cli.trajectory import Message, Shown, Step, Trajectory
from policy import seeing

Made = tuple[Any, Any, Sight]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    torch.set_num_threads(1)
    return seeing.build(tmp_path)


def shade(sight: Sight, colour: str, rng: random.Random) -> str:
    near = tuple(min(255, max(0, c + rng.randint(-25, 25))) for c in seeing.COLOURS[colour])
    return sight.blobs.put(seeing.png(near))


def attempt(name: str, messages: list[Message], outcome: Outcome = Outcome.SOLVED, **more: Any) -> Trajectory:
    replies = [i for i, m in enumerate(messages) if m.role == "assistant"]
    more.setdefault("steps", tuple(Step(i, "x") for i in replies))
    reward = float(outcome is Outcome.SOLVED)
    return Trajectory(
        name, "t", "toy", "p", "toy", tuple(messages), outcome=outcome, stop="submitted", reward=reward, **more
    )


def asked(sight: Sight, count: int, seed: int, turns: int = 1) -> list[Trajectory]:
    """Conversations about pictures whose answers are their colours."""
    rng = random.Random(seed)
    made = []
    for number in range(count):
        said = [rng.choice(list(seeing.COLOURS)) for _ in range(turns)]
        said[0] = list(seeing.COLOURS)[number % 4]
        made.append(attempt(f"a{number}", seeing.conversation([shade(sight, c, rng) for c in said], said)))
    return made


def examples(made: Made, attempts: list[Trajectory], **how: Any) -> list[Example]:
    chat = Chat(made[1], made[2])
    found, account = sft_examples(attempts, {}, unresolved="none", max_length=512, render=chat.segments, **how)
    account.check()
    return found


def rightly(made: Made, attempts: list[Trajectory]) -> float:
    model, tokenizer, sight = made
    policy = HfPolicy(model, tokenizer, "seer", sight=sight)
    try:
        asked = Sampling(temperature=0.0, max_tokens=4)
        said = [policy.reply(t.messages[:1], sampling=asked).message.content for t in attempts]
    finally:
        policy.close()
    return sum(s == t.messages[1].content for s, t in zip(said, attempts, strict=True)) / len(said)


def test_sft_learns_what_only_the_picture_tells_and_leaves_the_tower_alone(made: Made) -> None:
    model, _, sight = made
    tower = {n: p.clone() for n, p in model.base_model.visual.named_parameters()}
    rest = {n: p.clone() for n, p in model.base_model.language_model.named_parameters()}
    learned, unseen = asked(sight, 32, seed=1), asked(sight, 16, seed=2)
    cfg = schema.Sft(tokens=20_000, batch_tokens=256, optimizer="muon", lr=1e-2, muon_lr=1e-2)
    result = train_sft(model, examples(made, learned), cfg, seed=0, precision="float32", sight=sight)
    assert result.losses[-1] < 0.2 < 1.0 < result.losses[0]
    assert rightly(made, unseen) >= 0.75
    for name, p in model.base_model.visual.named_parameters():
        assert torch.equal(p, tower[name]) and p.grad is None and not p.requires_grad, name
    assert any(not torch.equal(p, rest[n]) for n, p in model.base_model.language_model.named_parameters())


def test_no_gradient_is_computed_through_the_tower(made: Made) -> None:
    """Even where nobody froze it."""
    model, _, sight = made
    compute = Compute(model, precision="float32", sight=sight)
    rows = collate(examples(made, asked(sight, 2, seed=0)))
    assert all(p.requires_grad for p in model.base_model.visual.parameters())
    compute.backward(-compute.logprobs(rows).sum())
    assert all(p.grad is None for p in model.base_model.visual.parameters())
    assert all(p.grad is not None for p in model.base_model.language_model.parameters())


def test_rows_of_several_lengths_and_pictures_are_as_each_alone(made: Made) -> None:
    model, _, sight = made
    compute = Compute(model, precision="float32", sight=sight)
    some = examples(made, [*asked(sight, 2, seed=0), *asked(sight, 2, seed=3, turns=3)])
    together = compute.logprobs(collate(some))
    alone = torch.cat([compute.logprobs(collate([e])) for e in some])
    assert torch.allclose(together, alone, atol=1e-5)


@pytest.mark.parametrize("keep", [1, 9])
def test_one_example_for_each_turn_says_the_same_of_it(made: Made, keep: int) -> None:
    """`sft.turns`: last trains each turn in an example of its own, with the log-prob it has in the whole."""
    model, tokenizer, sight = made
    sight = Sight(model.config, sight.processor, sight.blobs, keep)
    one = asked(sight, 1, seed=5, turns=3)
    whole = examples((model, tokenizer, sight), one)
    turns = examples((model, tokenizer, sight), one, turns="last")
    assert len(whole) == (3 if keep == 1 else 1) and len(turns) == 3
    assert sum(e.trained for e in whole) == sum(e.trained for e in turns)
    assert [len(e.images) for e in turns] == ([1, 1, 1] if keep == 1 else [1, 2, 3])
    for e in turns:
        assert all(w == 0 for w in e.weights[: -e.trained]), "loss on the last turn alone"
    compute = Compute(model, precision="float32", sight=sight)
    each = torch.cat([compute.logprobs(collate([e])) for e in turns])
    assert torch.allclose(each, torch.cat([compute.logprobs(collate([e])) for e in whole]), atol=1e-5)


def test_tokens_that_do_not_fit_the_pixels_stop_training(made: Made) -> None:
    _, _, sight = made
    (example,) = examples(made, asked(sight, 1, seed=0))
    (image,) = example.images
    larger = sight.blobs.put(seeing.png((1, 2, 3), 96, 64))
    wrong = type(example)(
        *(getattr(example, f) for f in example.__struct_fields__[:-1]),
        images=(Shown(larger, image.start, image.length, 1),),
    )
    compute = Compute(made[0], precision="float32", sight=sight)
    with pytest.raises(DataError, match=rf"a0: turn 1, picture 1 \({larger[:12]}\): 4 placeholder tokens, .* make 6"):
        compute.logprobs(collate([wrong]))
    with pytest.raises(DataError, match="the model reads text alone"):
        Compute(made[0], precision="float32").logprobs(collate([example]))


def sampled(made: Made, keep: int, count: int) -> list[Trajectory]:
    """Attempts of three turns by the policy itself."""
    model, tokenizer, sight = made
    policy = HfPolicy(model, tokenizer, "seer", sight=Sight(model.config, sight.processor, sight.blobs, keep))
    attempts = []
    for number in range(count):
        messages, steps, builder, previous = [], [], LedgerBuilder(), None
        for sha in [m.images[0] for m in asked(sight, 1, seed=number, turns=3)[0].messages if m.images]:
            messages.append(Message("user", "colour 0?", images=(sha,)))
            previous = policy.reply(messages, sampling=Sampling(max_tokens=4, seed=number), previous=previous)
            span = builder.add(previous)
            messages.append(previous.message)
            steps.append(Step(len(messages) - 1, "x", span=span, ledger=builder.number))
        outcome = Outcome.SOLVED if number % 2 else Outcome.UNSOLVED
        attempts.append(attempt(f"r{number}", messages, outcome, steps=tuple(steps), ledgers=builder.build()))
    policy.close()
    return attempts


@pytest.mark.parametrize("keep", [1, 9])
def test_rl_recomputes_what_was_sampled_and_moves_it(made: Made, keep: int) -> None:
    model, _, sight = made
    attempts = sampled(made, keep, 4)
    assert {len(t.ledgers) for t in attempts} == {3 if keep == 1 else 1}
    advantages = {t.id: 1.0 if t.reward else -1.0 for t in attempts}
    group, account = rl_group(attempts, advantages, max_length=512)
    account.check()
    assert account.trained == account.sampled == sum(len(ledger.logprobs) for t in attempts for ledger in t.ledgers)
    tower = torch.cat([p.flatten().clone() for p in model.base_model.visual.parameters()])
    optim = build(model, optimizer="adamw", lr=1e-3, muon_lr=0.0)
    cfg = schema.Rl(minibatches=2, normalizer="token")
    result = update_rl(model, optim, [group], cfg, seed=0, precision="float32", sight=sight)
    assert result.mismatch_max is not None and result.mismatch_max < 1e-4
    assert len(result.losses) == 2 and result.kl > 0
    assert torch.equal(torch.cat([p.flatten() for p in model.base_model.visual.parameters()]), tower)


@pytest.mark.parametrize("normalizer", ["token", "sequence", "constant"])
def test_ledgers_of_an_attempt_weigh_what_they_would_in_one(made: Made, normalizer: str) -> None:
    """One advantage for each attempt: cutting it into ledgers neither adds weight nor divides by their number."""
    model, _, sight = made
    group, _ = rl_group(sampled(made, 1, 2), {"r0": -1.0, "r1": 1.0}, max_length=512)
    group = group[1:]  # the first attempt is shorter by a turn
    lengths = [sum(e.trained for e in group if e.trajectory == name) for name in ("r0", "r1")]
    assert len(group) == 5 and lengths[0] < lengths[1]
    cfg = schema.Rl(minibatches=1, normalizer=normalizer)
    optim = build(model, optimizer="adamw", lr=0.0, muon_lr=0.0)
    result = update_rl(model, optim, [group], cfg, seed=0, constant=8, precision="float32", sight=sight)
    shares = {
        "token": [n / sum(lengths) for n in lengths],
        "sequence": [0.5, 0.5],
        "constant": [n / 16 for n in lengths],
    }[normalizer]
    assert result.losses[0] == pytest.approx(shares[0] - shares[1], abs=1e-5)
