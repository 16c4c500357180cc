"""Attempts that end up in a file: resumed, drawn again after infrastructure faults, counted. For distill and eval."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ..domain import Domain
from ..env.sandbox import Env
from ..errors import RunError
from ..outcome import Outcome
from ..policy.policy import Policy, Sampling
from ..rollout import Job, draw, lost_cause, run_jobs
from ..task import Task
from ..trajectory import Trajectory
from ..trajectory.reading import read
from ..trajectory.store import Store
from .context import Reporter

LEAST_FOR_RATE = 20  # attempts before a share of faults means anything


@dataclass
class Collection:
    """What to collect: `attempts` at each task that count, each within 1 + `redraws` draws."""

    stage: str
    path: Path
    tasks: list[Task]
    attempts: int
    policy: Callable[[Task, int], Policy]  # (task, slot) → who attempts it
    domain: Callable[[int], Domain]  # slot → the domain, with the harness whose turn it is
    sampling: Sampling
    redraws: int
    max_infra_rate: float
    counts: Counter[str] = field(default_factory=Counter)  # by outcome, of everything in the file
    last: str = ""  # how the newest attempt ended
    _new: Counter[str] = field(default_factory=Counter)  # by outcome, of what this process made

    def add(self, trajectory: Trajectory) -> None:
        """Count it; stop the run if going on makes no sense."""
        self.counts[trajectory.outcome] += 1
        self._new[trajectory.outcome] += 1
        self.last = trajectory.fault.message if trajectory.fault else trajectory.stop
        fault = lost_cause(trajectory)
        if fault:
            raise RunError(f"{fault.domain}: {fault.message}", hint="no further attempt can succeed; mend this first")
        check_infra_rate(self._new, self.max_infra_rate, self.stage, trajectory)


def check_infra_rate(counts: Counter[str], limit: float, stage: str, last: Trajectory) -> None:
    """Raise `RunError` when more than `limit` of the attempts say nothing about the policy."""
    bad = sum(n for outcome, n in counts.items() if not Outcome(outcome).counts)
    total = counts.total()
    if total >= LEAST_FOR_RATE and bad > limit * total:
        why = last.fault.message if last.fault else last.stop
        raise RunError(
            f"{bad} of {total} attempts ended in infrastructure or verifier errors, the last one: {why}",
            hint=f"mend the cause, or allow more with {stage}.max_infra_rate; the same command goes on from here",
        )


def collect(wanted: Collection, env: Env, report: Reporter, *, concurrency: int, close: Callable[[], object]) -> None:
    """Fill `wanted.path` with the attempts that it lacks."""
    title = f"{wanted.stage} {wanted.path.stem.split('.')[0]}" if wanted.stage == "eval" else wanted.stage
    with Store(wanted.path) as store, report.track(title, wanted.attempts * len(wanted.tasks)) as tracker:
        if store.torn.bytes:
            report.note(
                f"warning: {wanted.path}: cut a torn tail of {store.torn.bytes} bytes; that attempt is made anew"
            )
        rounds = _rounds(wanted)
        tracker.update(done=sum(r < 0 for r in rounds.values()), counts=wanted.counts)
        work = run_jobs(
            _jobs(wanted, rounds),
            lambda job: draw(job, wanted.domain(job.number % wanted.attempts), env, redraws=wanted.redraws),
            concurrency=concurrency,
            on_cancel=close,
        )
        for _, made in work:
            for trajectory in made:
                store.append(trajectory)
                wanted.add(trajectory)
            tokens = sum(t.usage.completion_tokens for t in made)
            tracker.update(tokens=tokens, counts=wanted.counts)
    if wanted._new and not any(Outcome(outcome).counts for outcome in wanted.counts):
        raise RunError(
            f"none of {wanted.counts.total()} attempts says anything about the policy, the last one: {wanted.last}",
            hint=f"mend the cause, then give the same command: {wanted.stage} goes on from here",
        )


def _rounds(wanted: Collection) -> dict[tuple[str, int], int]:
    """(task, slot) → the round of draws that is next: -1 where an attempt counts, so that none is needed.

    An interrupted command may leave draws that do not count, all of a slot's or some. Given again, each such slot
    gets a new round with numbers of its own: the endpoint that was down may be well again.
    """
    rounds: dict[tuple[str, int], int] = {}
    draws = 1 + wanted.redraws
    if wanted.path.stat().st_size:
        for trajectory in read(wanted.path):
            wanted.counts[trajectory.outcome] += 1
            turn, slot = divmod(trajectory.attempt // draws, wanted.attempts)
            key = (trajectory.task_id, slot)
            if trajectory.outcome.counts:
                rounds[key] = -1
            elif rounds.get(key, 0) >= 0:
                rounds[key] = max(rounds.get(key, 0), turn + 1)
    return rounds


def _jobs(wanted: Collection, rounds: dict[tuple[str, int], int]) -> Iterator[Job]:
    """Slot by slot over all tasks, so that a run cut short has seen every task."""
    for slot in range(wanted.attempts):
        for task in wanted.tasks:
            turn = rounds.get((task.id, slot), 0)
            if turn >= 0:
                number = turn * wanted.attempts + slot
                yield Job(task, wanted.policy(task, slot), wanted.sampling, wanted.stage, number)
