"""Proves a task set: through the same harness, sandbox and grader that measure a policy, the oracle must score 1,
doing nothing must score 0, and no wrong way that the domain knows may solve it. A task that fails one of these says
nothing about a policy.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing

from ..errors import RunError
from ..outcome import Outcome
from ..policy.policy import Policy, Sampling
from ..rollout import Job, attempt, run_jobs, tally
from ..task import Task
from ..trajectory import Trajectory
from .context import Context, Summary

SAMPLING = Sampling(temperature=0.0)
ORACLE, NOTHING = "oracle", "nothing"


def run(context: Context) -> Summary:
    """Attempts each task by the oracle script without errors, by submitting at once, and by each wrong way."""
    tasks = [t for split in ("train", "eval") for t in context.tasks(split)]
    if not tasks:
        raise RunError("there are no tasks to check", hint=f"`orchard {context.name} tasks` lists what there is")
    problems = [str(p) for p in getattr(context.domain, "problems", ())]
    for problem in problems:
        context.report.note(f"warning: {problem}")
    results: dict[str, dict[str, Trajectory]] = {t.id: {} for t in tasks}
    jobs = list(_jobs(context, tasks))
    with closing(context.open_env()) as env, context.report.track("check", len(jobs)) as tracker:
        found = run_jobs(
            jobs,
            lambda job: attempt(job, context.domain, env),
            concurrency=context.concurrency,
            on_cancel=env.close,
        )
        for job, trajectory in found:
            results[job.task.id][job.policy.name] = trajectory
            tracker.update(counts=tally(t for both in results.values() for t in both.values()))
    bad = {id: why for id, both in results.items() if (why := _wrong(both))}
    line = f"{len(tasks) - len(bad)} of {len(tasks)} tasks: oracle 1, nothing 0"
    return {
        "ok": not bad and not problems,
        "line": line,
        "tables": [_table(tasks, bad), *([_failures(bad)] if bad else [])],
        "failures": bad,
        "problems": problems,
    }


def _jobs(context: Context, tasks: list[Task]) -> Iterator[Job]:
    wrong_ways: Callable[[Task], Sequence[Policy]] = getattr(context.domain, "wrong", lambda _: ())
    for task in tasks:
        oracle, nothing = context.domain.script(task, seed=0, error_rate=0.0), context.domain.noop(task)
        oracle.name, nothing.name = ORACLE, NOTHING
        for number, policy in enumerate((oracle, nothing, *wrong_ways(task))):
            yield Job(task, policy, SAMPLING, "check", number)


def _wrong(made: Mapping[str, Trajectory]) -> str:
    """What is wrong with a task, or empty."""
    for who in (made[ORACLE], made[NOTHING], *made.values()):  # in this order, whichever ended first
        if who.fault:
            return f"{who.policy}: {who.outcome}: {who.fault.message}"
    oracle, nothing = made[ORACLE], made[NOTHING]
    if oracle.reward != 1.0:
        return f"the oracle scores {oracle.reward} ({oracle.stop}; {oracle.grade})"
    if nothing.reward != 0.0:
        return f"doing nothing scores {nothing.reward}"
    for name in made.keys() - {ORACLE, NOTHING}:
        if made[name].outcome is Outcome.SOLVED:
            return f"a wrong way, {name}, solves it ({made[name].grade})"
    return ""


def _table(tasks: list[Task], bad: dict[str, str]) -> dict[str, object]:
    families = sorted({t.family for t in tasks})
    rows = []
    for family in families:
        ids = [t.id for t in tasks if t.family == family]
        wrong = sum(i in bad for i in ids)
        rows.append([family, str(len(ids)), str(len(ids) - wrong), str(wrong)])
    rows.append(["all", str(len(tasks)), str(len(tasks) - len(bad)), str(len(bad))])
    return {"title": "oracle 1, nothing 0", "columns": ["family", "tasks", "good", "bad"], "rows": rows}


def _failures(bad: dict[str, str]) -> dict[str, object]:
    rows = [[id, why[:300]] for id, why in bad.items()]
    return {"title": "bad tasks", "columns": ["task", "why"], "rows": rows}
