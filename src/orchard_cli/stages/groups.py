"""Gathers balanced groups for one RL step: waves of attempts at each task until its group is there or given up."""

from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from .. import schema
from ..errors import RunError
from ..policy.policy import Policy, Sampling
from ..rollout import Job, derive_seed, lost_cause, run_jobs
from ..sample.balance import Bar, Draw, Verdict
from ..task import Task
from ..trajectory import Trajectory
from .collect import check_infra_rate
from .context import Tracker

NUMBERS = 1000  # attempt numbers that one step may use for a task


@dataclass
class Gathered:
    """What one step sampled: each task's verdict and all its attempts, kept or not, in the order they ended."""

    verdicts: dict[str, Verdict] = field(default_factory=dict)
    attempts: dict[str, list[Trajectory]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    tried: int = 0  # tasks taken

    @property
    def groups(self) -> int:
        return sum(bool(v.kept) for v in self.verdicts.values())


@dataclass
class Gathering:
    """One step. `tasks` yields the next task to try; at most `rl.prompts * rl.oversample` are taken."""

    config: schema.Rl
    tasks: Iterator[Task]
    policy: Policy
    sampling: Sampling
    step: int
    done: Gathered = field(default_factory=Gathered)
    _bars: dict[str, Bar] = field(default_factory=dict)
    _todo: deque[Job] = field(default_factory=deque)
    _numbers: Counter[str] = field(default_factory=Counter)

    def jobs(self) -> Iterator[Job | None]:
        """The next attempt; None while it depends on attempts under way."""
        while True:
            while not self._todo and self._start():
                pass
            if self._todo:
                yield self._todo.popleft()
            elif self._bars:
                yield None
            else:
                return

    def add(self, job: Job, trajectory: Trajectory) -> None:
        """Take an ending: the task's next wave is queued, or its verdict is there."""
        task, bar = job.task, self._bars[job.task.id]
        self.done.attempts.setdefault(task.id, []).append(trajectory)
        self.done.counts[trajectory.outcome] += 1
        fault = lost_cause(trajectory)
        if fault:
            raise RunError(f"{fault.domain}: {fault.message}", hint="no further attempt can succeed; mend this first")
        check_infra_rate(self.done.counts, self.config.max_infra_rate, "rl", trajectory)
        bar.add([Draw.of(trajectory)])
        verdict = bar.verdict()
        if verdict:
            self.done.verdicts[task.id] = verdict
            del self._bars[task.id]
        else:
            self._queue(task, bar)

    def _start(self) -> bool:
        """Begin with another task, if this step still needs one."""
        if len(self._bars) + self.done.groups >= self.config.prompts:
            return False
        if self.done.tried >= self.config.prompts * self.config.oversample:
            return False
        task = next(self.tasks)
        self.done.tried += 1
        if task.id not in self._bars and task.id not in self.done.verdicts:
            self._bars[task.id] = Bar(self.config.group)
            self._queue(task, self._bars[task.id])
        return True

    def _queue(self, task: Task, bar: Bar) -> None:
        """Queue what the task wants beyond what is queued or under way."""
        made = len(self.done.attempts.get(task.id, ()))
        while self._numbers[task.id] - made < bar.wanted():
            number = self.step * NUMBERS + self._numbers[task.id]
            seed = derive_seed(self.sampling.seed, "rl", task.id, number)
            self._numbers[task.id] += 1
            self._todo.append(Job(task, self.policy, replace(self.sampling, seed=seed), "rl", number))


def gather(
    gathering: Gathering,
    work: Callable[[Job], Trajectory],
    tracker: Tracker,
    *,
    concurrency: int,
    close: Callable[[], object],
) -> Gathered:
    """Run a step's attempts to the end."""
    for job, trajectory in run_jobs(gathering.jobs(), work, concurrency=concurrency, on_cancel=close):
        gathering.add(job, trajectory)
        tracker.update(done=0, tokens=trajectory.usage.completion_tokens)
    return gathering.done
