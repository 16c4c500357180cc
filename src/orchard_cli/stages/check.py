"""Proves a task set: through the same harness, sandbox and grader that measure a policy, the oracle must score 1
and doing nothing must score 0. A task that fails either says nothing about a policy.
"""

from collections.abc import Iterator
from contextlib import closing

from ..errors import RunError
from ..policy.policy import Sampling
from ..policy.scripted import ScriptedPolicy
from ..rollout import Job, attempt, run_jobs, tally
from ..task import Task
from ..trajectory import Trajectory
from .context import Context, Summary

SAMPLING = Sampling(temperature=0.0)
ORACLE_STEPS = 50  # large patches are written in several commands


def run(context: Context) -> Summary:
    """Attempts each task twice: by the oracle script without errors, and by submitting at once."""
    tasks = [t for split in ("train", "eval") for t in context.tasks(split)]
    if not tasks:
        raise RunError("there are no tasks to check", hint=f"`orchard {context.name} tasks` lists what there is")
    # a policy's step limit says nothing about a task; the domain was built with this very object
    context.config.harness.max_steps = max(context.config.harness.max_steps, ORACLE_STEPS)
    problems = [str(p) for p in getattr(context.domain, "problems", ())]
    for problem in problems:
        context.report.note(f"warning: {problem}")
    results: dict[str, dict[str, Trajectory]] = {t.id: {} for t in tasks}
    with closing(context.open_env()) as env, context.report.track("check", 2 * len(tasks)) as tracker:
        found = run_jobs(
            _jobs(context, tasks),
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
    for task in tasks:
        oracle = context.domain.script(task, seed=0, error_rate=0.0)
        oracle.name = "oracle"
        yield Job(task, oracle, SAMPLING, "check", 0)
        yield Job(task, _nothing(context), SAMPLING, "check", 1)


def _nothing(context: Context) -> ScriptedPolicy:
    from ..harness.formats import FORMATS
    from ..harness.loop import SENTINELS

    say = FORMATS[context.config.harness.format].encode
    return ScriptedPolicy.replies("nothing", [say(f"echo {SENTINELS[0]}")])


def _wrong(both: dict[str, Trajectory]) -> str:
    """What is wrong with a task, or empty."""
    oracle, nothing = both["oracle"], both["nothing"]
    for who in (oracle, nothing):
        if who.fault:
            return f"{who.policy}: {who.outcome}: {who.fault.message}"
    if oracle.reward != 1.0:
        return f"the oracle scores {oracle.reward} ({oracle.stop}; {oracle.grade})"
    if nothing.reward != 0.0:
        return f"doing nothing scores {nothing.reward}"
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
