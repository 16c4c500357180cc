"""RL with Balanced Adaptive Rollout: sample until groups are balanced, update, hand the weights back, again.

One step: waves of `stride` attempts at each task until a group of `size` with a share of solved ones in [low, high]
can be put together, or `max` is spent (paper Alg. 1; stride < max makes stopping early real). Then
a clipped policy gradient (clip-higher) with one advantage for each attempt. Each step's attempts are a file of
their own; the state after each step is saved, so that a killed run goes on with the next one.
"""

import random
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import asdict
from itertools import islice
from typing import Any

import msgspec

from .. import schema
from ..data.account import Account
from ..data.build import rl_group
from ..data.example import Example
from ..domain import Domain
from ..outcome import Outcome
from ..policy.policy import Sampling
from ..rollout import Job, attempt, derive_seed
from ..sample.advantage import advantages
from ..sample.telemetry import telemetry
from ..task import Task
from ..trajectory import Trajectory
from ..trajectory.blobs import FOLDER, Blobs
from ..trajectory.store import Store
from .context import Context, Summary
from .groups import NUMBERS, Gathered, Gathering, gather
from .sft import suited


def run(context: Context) -> Summary:
    """Writes rl/trajectories/step-NNNN.jsonl.zst, rl/steps.jsonl, rl/checkpoint."""
    from ..policy import open_policy
    from ..policy.sight import Sight
    from ..policy.weights import load, save
    from ..train import state
    from ..train.optim import build, falling
    from ..train.rl import update_rl

    config, folder = context.config, context.folder("rl")
    start = context.need(context.folder("sft") / "checkpoint", "checkpoint", "sft")
    model, tokenizer = load(start, device=config.model.device)
    rates = suited(config.rl, config.model, config.model.rl_lr)
    optim = build(model, optimizer=rates.optimizer, lr=rates.lr, muon_lr=rates.muon_lr)
    key = state.run_key(model, (), config.seed, config.rl)
    saved = state.load(folder / ".state" / "trainer.pt", model, optim, key=key)
    records: list[dict[str, Any]] = saved.extra["records"] if saved else []
    tasks = _forever(context.rl_tasks(), config.seed)
    next(islice(tasks, sum(r["tried"] for r in records), None), None) if records else None
    (folder / "trajectories").mkdir(parents=True, exist_ok=True)
    blobs = Blobs(context.root / FOLDER)
    sight = Sight.of(model, start, blobs, config.harness.images)
    policy = open_policy(start, config.model, name="rl", blobs=blobs, images=config.harness.images)
    policy.update(model, len(records))
    with ExitStack() as stack, context.report.track("rl", config.rl.steps, "steps") as tracker:
        stack.callback(policy.close)
        env = stack.enter_context(closing(context.open_env()))
        tracker.update(done=len(records))
        for step in range(len(records), config.rl.steps):
            gathering = Gathering(config.rl, tasks, policy, sampling(context, step), step)
            found = gather(
                gathering,
                lambda job: attempt(job, _dealt(context, job), env),
                tracker,
                concurrency=context.concurrency,
                close=stack.close,
            )
            groups, account = _learn_from(found, context)
            _store(context, step, found)
            record: dict[str, Any] = {
                "step": step + 1,
                "tried": found.tried,
                "outcomes": {str(k): n for k, n in found.counts.items()},
            }
            record |= msgspec.to_builtins(telemetry(found.verdicts.values()), str_keys=True)
            record["account"] = account.record()
            if groups:
                record["update"] = asdict(
                    update_rl(
                        model,
                        optim,
                        groups,
                        config.rl,
                        seed=config.seed + step,
                        share=falling(step, config.rl.steps, config.rl.min_lr),
                        constant=config.harness.max_context,
                        sight=sight,
                    )
                )
                policy.update(model, step + 1)
            # plain values only: the saved state is read back without running code
            records.append(msgspec.to_builtins(record, str_keys=True))
            state.save(
                folder / ".state" / "trainer.pt", model, optim, step=step + 1, key=key, extra={"records": records}
            )
            tracker.update(counts=_shown(record))
    save(model, tokenizer, folder / "checkpoint", sight and sight.processor)
    (folder / "steps.jsonl").write_bytes(b"".join(msgspec.json.encode(r) + b"\n" for r in records))
    return _summary(context, records)


def _dealt(context: Context, job: Job) -> Domain:
    """A group compares like with like: one harness for all attempts at a task in a step."""
    return context.turn(derive_seed(context.config.seed, "harness", job.task.id, job.number // NUMBERS))


def sampling(context: Context, step: int) -> Sampling:
    """Of update `step`, from 0; its turns follow the curriculum (OpenWebRL: 15, then 30)."""
    config = context.config
    first, last, steps = config.rl.first_turns, config.harness.max_steps, config.rl.steps
    return Sampling(
        temperature=config.rl.temperature,
        max_tokens=config.harness.max_tokens,
        max_context=config.harness.max_context,
        seed=config.seed,
        turns=first and first + round((last - first) * step / max(1, steps - 1)),
    )


def _forever(tasks: list[Task], seed: int) -> Iterator[Task]:
    """All tasks in a fresh order each round; the order follows from the seed alone, so a resumed run skips ahead."""
    turn = 0
    while True:
        order = list(tasks)
        random.Random(f"{seed}/rl/{turn}").shuffle(order)
        yield from order
        turn += 1


def _learn_from(found: Gathered, context: Context) -> tuple[list[list[Example]], Account]:
    """The kept groups as examples with advantages, and where every sampled token of the step went."""
    rl, groups, account = context.config.rl, [], Account()
    for task, verdict in found.verdicts.items():
        attempts = {t.id: t for t in found.attempts[task]}
        kept = [attempts[i] for i in verdict.kept]
        pool = [_reward(t, rl) for t in attempts.values() if t.reward is not None]
        lengths = [sum(len(ledger.logprobs) for ledger in t.ledgers) for t in kept]
        rewards = [_reward(t, rl) for t in kept]
        given = advantages(rewards, pool, baseline=rl.baseline, scale=rl.scale, lengths=lengths)
        weights = dict(zip(verdict.kept, given, strict=True)) if given else {}
        examples, part = rl_group(attempts.values(), weights, max_length=context.config.harness.max_context)
        account += part
        if examples:
            groups.append(examples)
    account.check()
    return groups, account


def _reward(trajectory: Trajectory, rl: schema.Rl) -> float:
    penalty = rl.format_penalty if trajectory.outcome is Outcome.POLICY_INVALID else 0.0
    return (trajectory.reward or 0.0) - penalty


def _store(context: Context, step: int, found: Gathered) -> None:
    """All attempts of the step; a file left by a step that was cut is replaced."""
    path = context.folder("rl") / "trajectories" / f"step-{step + 1:04d}.jsonl.zst"
    path.unlink(missing_ok=True)
    with Store(path) as store:
        for attempts in found.attempts.values():
            for trajectory in attempts:
                store.append(trajectory)


def _shown(record: dict[str, Any]) -> dict[str, Any]:
    rate = record["pass_rate"]
    return {"groups": record["groups"], "sampled": record["sampled"], "% solved": round(100 * (rate or 0))}


def _summary(context: Context, records: list[dict[str, Any]]) -> Summary:
    folder = context.folder("rl")
    sampled, groups = sum(r["sampled"] for r in records), sum(r["groups"] for r in records)
    used, stopped = sum(r["used"] for r in records), sum(r["why"].get("early", 0) for r in records)
    first, last = (_mean(r["pass_rate"] for r in part) for part in (records[:2], records[-2:]))
    line = f"{len(records)} steps · {sampled:,} attempts, {used:,} in {groups} balanced groups, {stopped} stopped early"
    line += f" · solved while sampling {first:.0%} → {last:.0%}"
    rows = [_row(r) for r in records]
    columns = ["step", "groups", "sampled", "used", "pass rate", "loss", "KL", "clipped", "engine gap"]
    return {
        "line": line,
        "tables": [{"title": "steps", "columns": columns, "rows": rows}],
        "files": [str(folder / "checkpoint"), str(folder / "steps.jsonl"), str(folder / "trajectories")],
    }


def _row(record: dict[str, Any]) -> list[str]:
    update = record.get("update")
    cells = [str(record["step"]), str(record["groups"]), str(record["sampled"]), str(record["used"])]
    cells.append(f"{record['pass_rate'] or 0:.2f}")
    if not update:
        return [*cells, "–", "–", "–", "–"]
    gap = update["mismatch_mean"]
    loss = _mean(update["losses"])
    return [*cells, f"{loss:.3f}", f"{update['kl']:.4f}", f"{update['clip_share']:.3f}", f"{gap or 0:.4f}"]


def _mean(values: Iterable[float | None]) -> float:
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if known else 0.0
