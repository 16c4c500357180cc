"""Supervised training: read the examples in a planned order until the token budget is spent."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import nn

from .. import schema
from ..data.batch import plan, rectangles
from ..data.example import Example
from ..errors import DataError, RunError
from ..policy.sight import Sight
from . import state
from .compute import Compute
from .loss import cross_entropy
from .optim import Optim, build, rate
from .rows import collate


@dataclass(frozen=True)
class StepReport:
    """One optimiser step. `tokens` were read, `trained` of them had a loss; `loss` in nats for each of these."""

    step: int  # 1 … steps
    steps: int
    loss: float
    tokens: int
    trained: int
    tokens_done: int
    rate: float  # share of the peak
    grad_norm: float  # before clipping
    seconds: float


@dataclass(frozen=True)
class SftResult:
    """Totals over the whole run, resumed parts included. `losses` has one number for each step."""

    steps: int
    tokens: int
    trained: int
    losses: tuple[float, ...]
    epochs: float
    seconds: float  # of this process
    resumed_at: int  # 0: from the start


def train_sft(
    model: nn.Module,
    examples: Sequence[Example],
    cfg: schema.Sft,
    *,
    seed: int,
    on_step: Callable[[StepReport], None] = lambda report: None,
    checkpoint_dir: Path | None = None,
    save_every: int = 50,
    precision: str = "bfloat16",
    micro_tokens: int = 4096,
    sight: Sight | None = None,
) -> SftResult:
    """Train `model` (float32 weights, in place). With `checkpoint_dir`, a state is kept there and gone on from.
    sight: for a model that sees, to look at the pictures of the examples.

    The order of examples, and so the result, follows from (examples, cfg, seed) alone: killed after any step and
    started again, the run ends in the same bits. Raises `DataError` without examples, `RunError` if a gradient
    is not finite.
    """
    if not examples:
        raise DataError("there is nothing to learn from", hint="see the token account: what dropped the attempts?")
    began, lengths = time.monotonic(), [len(e.ids) for e in examples]
    steps = plan(lengths, batch_tokens=cfg.batch_tokens, budget=cfg.tokens, seed=seed)
    optim = build(model, optimizer=cfg.optimizer, lr=cfg.lr, muon_lr=cfg.muon_lr, weight_decay=cfg.weight_decay)
    kept = _Kept(checkpoint_dir, state.run_key(model, examples, cfg, seed, precision, micro_tokens), save_every)
    losses = kept.restore(model, optim)
    first, compute = len(losses), Compute(model, precision=precision, sight=sight)
    read = sum(lengths[i] for step in steps[:first] for i in step)
    for at, step in enumerate(steps[first:], first):
        rows = rectangles(lengths, step, max_tokens=micro_tokens)
        share = rate(at, len(steps), warmup=cfg.warmup, floor=cfg.min_lr)
        report = _step(compute, optim, [[examples[i] for i in row] for row in rows], cfg.grad_clip, share)
        read += report.tokens
        losses.append(report.loss)
        kept.save(model, optim, losses, last=at + 1 == len(steps))
        on_step(replace(report, step=at + 1, steps=len(steps), tokens_done=read))
    trained = sum(examples[i].trained for step in steps for i in step)
    return SftResult(len(steps), read, trained, tuple(losses), read / sum(lengths), time.monotonic() - began, first)


@dataclass(frozen=True)
class _Kept:
    """The state on disk, if there is a folder for it; one loss for each step done."""

    folder: Path | None
    key: str
    every: int

    @property
    def path(self) -> Path | None:
        return self.folder / "trainer.pt" if self.folder else None

    def restore(self, model: nn.Module, optim: Optim) -> list[float]:
        done = state.load(self.path, model, optim, key=self.key) if self.path else None
        return list(done.extra["losses"]) if done else []

    def save(self, model: nn.Module, optim: Optim, losses: list[float], *, last: bool) -> None:
        step = len(losses)
        if self.path and (last or step % self.every == 0):
            state.save(self.path, model, optim, step=step, key=self.key, extra={"losses": losses})


def _step(compute: Compute, optim: Optim, batches: list[list[Example]], grad_clip: float, share: float) -> StepReport:
    began = time.monotonic()
    every = [e for batch in batches for e in batch]
    total = sum(w for e in every for w in e.weights)
    loss, trained = 0.0, 0
    for batch in batches:
        rows = collate(batch, compute.device)
        part = cross_entropy(compute.logprobs(rows), rows.weights_N, total)
        compute.backward(part)
        loss += part.item()
        trained += len(rows.targets_N)
    if trained != sum(e.trained for e in every):
        raise RunError(f"{trained} tokens were trained, {sum(e.trained for e in every)} were to be")
    norm = clip(compute.model, grad_clip)
    optim.step(share)
    compute.refresh()
    tokens = sum(len(e.ids) for e in every)
    return StepReport(0, 0, loss, tokens, trained, 0, share, norm, time.monotonic() - began)


def clip(model: nn.Module, most: float) -> float:
    """Clip the gradient norm and return what it was. Raises `RunError` if it is not finite."""
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), most).item()
    if not norm < float("inf"):
        raise RunError(f"the gradient norm is {norm}", hint="lower the learning rate; the last checkpoint is intact")
    return norm
