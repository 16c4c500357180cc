"""Credit: for every unresolved attempt, a curve of P(solve) over its steps, and the steps where it rises.

`branch` measures the curve: the sandbox is brought back to a key step, forked, and finished several times. `teacher`
asks a model that sees the whole attempt and its outcome. Both leave the same record.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from ..credit.branch import measure
from ..credit.record import Credit, Finding, credit, dump, load
from ..credit.teacher import judge
from ..domain import Domain
from ..env.sandbox import Env
from ..errors import ConfigError
from ..outcome import Outcome
from ..policy.policy import Policy
from ..rollout import run_jobs
from ..task import Task
from ..trajectory import Trajectory
from ..trajectory.reading import read
from .context import Context, Summary
from .distill import teacher_sampling

SAVE_EVERY = 50  # records; a crash loses at most so many measurements


def run(context: Context) -> Summary:
    """Writes credit/credit.jsonl, one line for each unresolved attempt; empty with credit.kind=none."""
    config, path = context.config.credit, context.folder("credit") / "credit.jsonl"
    source = context.need(context.folder("distill") / "trajectories.jsonl.zst", "trajectories", "distill")
    found = {c.trajectory: c for c in load(path)} if path.exists() else {}
    if config.kind != "none":
        unresolved = [t for t in read(source) if t.outcome.counts and t.outcome is not Outcome.SOLVED]
        chosen = unresolved[: config.limit or None]
        tasks = {t.id: t for t in context.tasks("train")}
        todo = [t for t in chosen if t.id not in found and t.task_id in tasks]
        _credit_all(context, todo, tasks, found, path)
    dump(found.values(), path)
    return _summary(found, path)


def _credit_all(
    context: Context, todo: list[Trajectory], tasks: dict[str, Task], found: dict[str, Credit], path: Path
) -> None:
    config = context.config.credit
    if config.kind == "branch":
        refuse_unforkable([(context.of(t, tasks[t.task_id]), tasks[t.task_id]) for t in todo])
    with closing(context.open_env()) as env, context.report.track("credit", len(todo)) as tracker:
        estimate = _estimator(context, tasks, env)
        for trajectory, finding in run_jobs(todo, estimate, concurrency=context.concurrency, on_cancel=env.close):
            found[trajectory.id] = credit(
                trajectory.id,
                trajectory.task_id,
                finding,
                method=config.kind,
                epsilon=config.epsilon,
                rule=config.rule,
            )
            tracker.update(tokens=finding.usage.completion_tokens, counts=_counts(found))
            if len(found) % SAVE_EVERY == 0:
                dump(found.values(), path)


def refuse_unforkable(todo: list[tuple[Domain, Task]]) -> None:
    """A fork copies files, no processes: where those hold the state, a finish from it would measure another world."""
    for harness in {h.name: h for h in (domain.harness(task) for domain, task in todo)}.values():
        if not harness.forkable:
            raise ConfigError(
                f"credit=branch cannot go back to a step of an attempt with harness.kind={harness.name}",
                hint="give credit=none, or credit=teacher with a model as teacher",
            )


def _estimator(context: Context, tasks: dict[str, Task], env: Env) -> Callable[[Trajectory], Finding]:
    """trajectory → its curve, by the chosen method."""
    config, sampling = context.config, teacher_sampling(context)
    scripted = config.teacher.kind == "scripted"
    if config.credit.kind == "teacher":
        if scripted:
            raise ConfigError(
                "credit=teacher needs a model as teacher; a script cannot judge",
                hint="give teacher=openai teacher.base_url=…, or measure with credit=branch",
            )
        model = context.open_teacher()
        return lambda t: judge(t, tasks[t.task_id], model, sampling)
    teacher = None if scripted else context.open_teacher()

    def finisher(domain: Domain, task: Task) -> Callable[[int], Policy]:
        rate = config.teacher.error_rate
        return lambda seed: teacher or domain.script(task, seed=seed, error_rate=rate)

    def branch(t: Trajectory) -> Finding:
        task = tasks[t.task_id]
        domain = context.of(t, task)
        return measure(
            t,
            task,
            domain,
            env,
            finisher(domain, task),
            sampling,
            samples=config.credit.samples,
            anchors=config.credit.anchors,
            seed=config.seed,
            timeout_s=config.harness.exec_timeout_s,
        )

    return branch


def _counts(found: dict[str, Credit]) -> dict[str, int]:
    return dict(Counter("rising" if c.rising else "flat" if c.curve else "no curve" for c in found.values()))


def _summary(found: dict[str, Credit], path: Path) -> Summary:
    problems = sum((Counter(c.problems) for c in found.values()), Counter[str]())
    steps = sum(stop - start for c in found.values() for start, stop in c.rising)
    counts = _counts(found)
    line = f"{len(found)} unresolved · {counts.get('rising', 0)} with rising segments · {steps} rising steps"
    if problems:
        line += " · problems: " + ", ".join(f"{n} {name}" for name, n in problems.most_common(3))
    return {"line": line, "counts": counts, "problems": dict(problems), "files": [str(path)]}
