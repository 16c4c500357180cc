"""Distill: a teacher attempts every training task `distill.attempts` times; resolved or not, everything is kept."""

from contextlib import closing

from ..policy.policy import Policy, Sampling
from ..rollout import derive_seed
from ..task import Task
from ..trajectory.stats import stats
from .collect import Collection, collect
from .context import Context, Summary


def run(context: Context) -> Summary:
    """Writes distill/trajectories.jsonl.zst."""
    config = context.config
    path = context.folder("distill") / "trajectories.jsonl.zst"
    teacher = None if config.teacher.kind == "scripted" else context.open_teacher()

    def policy(task: Task, slot: int) -> Policy:
        if teacher:
            return teacher
        seed = derive_seed(config.seed, "teacher", task.id, slot)
        return context.turn(slot).script(task, seed=seed, error_rate=config.teacher.error_rate)

    wanted = Collection(
        stage="distill",
        path=path,
        tasks=context.distill_tasks(),
        attempts=config.distill.attempts,
        policy=policy,
        domain=context.turn,
        sampling=teacher_sampling(context),
        redraws=config.distill.infra_retries,
        max_infra_rate=config.distill.max_infra_rate,
    )
    if config.distill.attempts < len(context.others):
        left = ", ".join(list(context.others)[config.distill.attempts :])
        context.report.note(f"note: attempts are dealt to the harnesses in turn; {left} gets none: distill.attempts")
    with closing(context.open_env()) as env:
        collect(wanted, env, context.report, concurrency=context.concurrency, close=env.close)
    return _summary(wanted)


def teacher_sampling(context: Context) -> Sampling:
    config = context.config
    return Sampling(
        temperature=config.teacher.temperature,
        top_p=config.teacher.top_p,
        max_tokens=config.harness.max_tokens,
        max_context=config.harness.max_context,
        seed=config.seed,
    )


def _summary(wanted: Collection) -> Summary:
    found = stats(wanted.path)
    outcomes = ", ".join(f"{n} {outcome}" for outcome, n in wanted.counts.most_common())
    line = f"{len(wanted.tasks)} tasks · {wanted.counts.total()} trajectories · {outcomes}"
    if found.usage.cost_usd:
        line += f" · ${found.usage.cost_usd:.2f}"
    return {"line": line, "outcomes": dict(wanted.counts), "tasks": len(wanted.tasks), "files": [str(wanted.path)]}
