"""SFT: learn every token that the teacher wrote in resolved attempts, and in unresolved ones only rising steps.

Observations are read, never learned; the whole history stays in front (paper 3.3). What was left out, and why, is in
account.json.
"""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from .. import schema
from ..credit.record import load
from ..data.account import Account
from ..data.build import sft_examples
from ..data.example import Example
from ..errors import RunError
from ..trajectory import Trajectory
from ..trajectory.blobs import FOLDER, Blobs
from ..trajectory.reading import read
from .context import Context, Summary

if TYPE_CHECKING:
    from ..policy.chat import Chat
    from ..policy.sight import Sight


def run(context: Context) -> Summary:
    """Writes sft/base (the untrained policy, if it is made here), sft/checkpoint, account.json, losses.jsonl."""
    from ..policy import weights
    from ..policy.chat import Chat
    from ..train.sft import StepReport, train_sft

    config, folder = context.config, context.folder("sft")
    source = context.need(context.folder("distill") / "trajectories.jsonl.zst", "trajectories", "distill")
    weights.threads(config.model.threads)
    model, tokenizer, sight = base(context, _in_order(source))
    examples, account = _examples(context, source, Chat(tokenizer, sight))
    if not examples:
        raise RunError(f"nothing to learn from: {dict(account.left_out)}", hint="distill more, or check sft.unresolved")
    losses = []
    with context.report.track("sft", config.sft.tokens, "tokens") as tracker:

        def on_step(report: StepReport) -> None:
            losses.append(report)
            tracker.update(done=report.tokens, tokens=report.tokens, counts={"loss": round(report.loss, 3)})

        done = train_sft(
            model,
            examples,
            suited(config.sft, config.model, config.model.lr),
            seed=config.seed,
            on_step=on_step,
            checkpoint_dir=folder / ".state",
            sight=sight,
        )
    weights.save(model, tokenizer, folder / "checkpoint", sight and sight.processor)
    (folder / "account.json").write_bytes(msgspec.json.format(msgspec.json.encode(account.record())))
    lines = [msgspec.json.encode({"step": i + 1, "loss": loss}) for i, loss in enumerate(done.losses)]
    (folder / "losses.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    line = f"{len(examples)} examples · {done.steps} steps · {done.tokens:,} tokens ({done.epochs:.1f} epochs)"
    line += f" · loss {done.losses[0]:.2f} → {_last(done.losses):.2f}"
    return {
        "line": line,
        "account": account.record(),
        "tables": [_account_table(account)],
        "files": [str(folder / "checkpoint"), str(folder / "account.json"), str(folder / "losses.jsonl")],
    }


def suited(settings: Any, model: schema.Model, lr: float) -> Any:
    """`sft` or `rl` settings with what was left to the model filled in: the rate and the optimiser."""
    auto = "muon" if model.made else "adamw"
    optimizer = auto if settings.optimizer == "auto" else settings.optimizer
    return replace(settings, lr=settings.lr or lr, optimizer=optimizer)


def base(context: Context, trajectories: Iterable[Trajectory]) -> tuple[Any, Any, "Sight | None"]:
    """(model in float32, tokenizer, its sight if it sees) before any training: made here for model=tiny and tiny_vl,
    else the given checkpoint.
    """
    from ..policy import made, weights
    from ..policy.reply_text import write
    from ..policy.sight import Sight

    config, place = context.config.model, context.folder("sft") / "base"
    if config.made and not place.exists():
        said = [m for t in trajectories for m in t.messages]
        texts, replies = [write(m) for m in said], [write(m) for m in said if m.role == "assistant"]
        model, words, processor = made.build(config, texts, replies, context.config.seed)
        weights.save(model, words, place, processor)
    model, tokenizer = weights.load(place if config.made else config.path, device=config.device)
    blobs = Blobs(context.root / FOLDER)
    sight = Sight.of(model, place if config.made else config.path, blobs, context.config.harness.images)
    return model, tokenizer, sight


def _examples(context: Context, source: Path, chat: "Chat") -> tuple[list[Example], Account]:
    config = context.config
    credits = context.folder("credit") / "credit.jsonl"
    if config.sft.unresolved == "rise":
        context.need(credits, "credit", "credit")
    rising = {c.trajectory: c.rising for c in load(credits)} if credits.exists() else {}
    return sft_examples(
        _in_order(source),
        rising,
        unresolved=config.sft.unresolved,
        max_length=config.sft.max_length,
        render=chat.segments,
        turns=config.sft.turns,
        per_task=config.sft.per_task,
        per_family=config.sft.per_family,
    )


def _in_order(source: Path) -> list[Trajectory]:
    """By task and attempt: attempts are stored as they end, and that order must not change what is learned."""
    return sorted(read(source), key=lambda t: (t.task_id, t.attempt))


def _last(losses: tuple[float, ...]) -> float:
    tail = losses[-max(1, len(losses) // 20) :]
    return sum(tail) / len(tail)


def _account_table(account: Account) -> dict[str, object]:
    """sampled = trained + masked + dropped, by reason."""
    rows = [["trained", "", f"{account.trained:,}"]]
    rows += [["masked", reason, f"{n:,}"] for reason, n in sorted(account.masked.items())]
    rows += [["dropped", reason, f"{n:,}"] for reason, n in sorted(account.dropped.items())]
    rows.append(["sampled", "the sum", f"{account.sampled:,}"])
    return {"title": "where every token went", "columns": ["", "why", "tokens"], "rows": rows}
