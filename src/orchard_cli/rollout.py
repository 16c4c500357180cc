"""One attempt: open a sandbox, prepare it, let the harness run the policy, export, grade. Many: `run_jobs`.

Whatever goes wrong is caught at a named boundary and becomes part of the record; an infrastructure or verifier
failure is an outcome of its own and never a reward of 0.
"""

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from typing import TypeVar

from .domain import Domain, Grade
from .env.sandbox import Env
from .errors import AttemptError, Fault, GradeError, HarnessError, SandboxError, boundary
from .harness.harness import Harness, Transcript
from .outcome import Outcome
from .policy.policy import Policy, Sampling
from .task import Task
from .trajectory import Trajectory, Usage

J = TypeVar("J")
T = TypeVar("T")

_CUT = {
    "step_limit": Outcome.TRUNCATED,
    "time_limit": Outcome.TRUNCATED,
    "token_limit": Outcome.TRUNCATED,
    "format_errors": Outcome.POLICY_INVALID,
    "cancelled": Outcome.CANCELLED,
    "over_time": Outcome.CANCELLED,  # excluded by `harness.late`
}


@dataclass(frozen=True)
class Job:
    """One attempt to make. `number` is its place among the attempts at its task within the stage."""

    task: Task
    policy: Policy
    sampling: Sampling
    stage: str
    number: int


def attempt(job: Job, domain: Domain, env: Env) -> Trajectory:
    """Let the policy try the task once. A failure is part of the record, never an exception."""
    started, clock = datetime.now(UTC), time.monotonic()
    harness = domain.harness(job.task)
    transcript, artifact, fault = _act(job, harness, domain, env)
    outcome, grade, fault = judge(job.task, transcript, artifact, fault, domain, env)
    task = job.task
    return Trajectory(
        id=f"{job.stage}/{task.id}/{job.number}",
        task_id=task.id,
        domain=task.domain,
        policy=job.policy.name,
        harness=harness.name,
        messages=transcript.messages,
        steps=transcript.steps,
        outcome=outcome,
        stop=transcript.stop,
        split=task.split,
        family=task.family,
        stage=job.stage,
        attempt=job.number,
        seed=job.sampling.seed,
        ledgers=transcript.ledgers,
        tools=transcript.tools,
        reward=grade.reward if outcome.counts else None,
        artifact=artifact,
        grade=dict(grade.details),
        fault=fault,
        usage=transcript.usage,
        env={"isolation": env.describe().get("isolation")},
        started_at=started.isoformat(timespec="milliseconds"),
        wall_s=round(time.monotonic() - clock, 4),
    )


def _act(job: Job, harness: Harness, domain: Domain, env: Env) -> tuple[Transcript, str, Fault | None]:
    """What the policy did, what it left to be graded, and the fault that ended it, if one did."""
    transcript, artifact = Transcript((), (), (), Usage(), "error"), ""
    try:
        with boundary(SandboxError, "opening the sandbox"):
            sandbox = env.open(domain.spec(job.task))
        with sandbox:
            with boundary(SandboxError, "preparing the sandbox"):
                domain.prepare(job.task, sandbox)
            with boundary(HarnessError, "running the harness"):
                transcript = harness.run(job.task, sandbox, job.policy, job.sampling)
            if transcript.stop == "submitted":
                with boundary(SandboxError, "exporting the result"):
                    artifact = domain.export(job.task, sandbox)
    except AttemptError as error:
        return transcript, "", error.fault
    return transcript, artifact, transcript.fault


def judge(
    task: Task, transcript: Transcript, artifact: str, fault: Fault | None, domain: Domain, env: Env
) -> tuple[Outcome, Grade, Fault | None]:
    """The outcome, the grade (reward 0 unless graded) and the fault that is left to record."""
    if fault:
        owned = fault.attributable == "model"  # what the policy did to its own sandbox counts as its failure
        return Outcome.UNSOLVED if owned else Outcome.INFRA_ERROR, Grade(0.0, False), fault
    if transcript.stop in _CUT:
        return _CUT[transcript.stop], Grade(0.0, False), None
    try:
        with boundary(GradeError, "grading"):
            grade = domain.grade(task, artifact, env)
    except AttemptError as error:
        return Outcome.VERIFIER_ERROR, Grade(0.0, False), error.fault
    return Outcome.SOLVED if grade.solved else Outcome.UNSOLVED, grade, None


def draw(job: Job, domain: Domain, env: Env, *, redraws: int) -> list[Trajectory]:
    """Attempt `job` until an attempt says something about the policy, at most `redraws` more times.

    Every draw is returned, the last one last. A job's number counts draws: job `n` owns the numbers
    `n * (1 + redraws)` up to the next job's, so that a stored number tells slot and draw apart.
    """
    made: list[Trajectory] = []
    for number in range(job.number * (1 + redraws), (job.number + 1) * (1 + redraws)):
        seed = derive_seed(job.sampling.seed, job.stage, job.task.id, number)
        numbered = replace(job, number=number, sampling=replace(job.sampling, seed=seed))
        made.append(attempt(numbered, domain, env))
        last = made[-1]
        if last.outcome.counts or last.stop == "over_time" or lost_cause(last):
            break
    return made


def derive_seed(*parts: object) -> int:
    """A 31-bit seed that depends on every part and on nothing else."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:4]) >> 1


def run_jobs(
    jobs: Iterable[J | None],
    work: Callable[[J], T],
    *,
    concurrency: int,
    on_cancel: Callable[[], object] = lambda: None,
) -> Iterator[tuple[J, T]]:
    """Run `work` on every job in threads, at most `concurrency` at once; results in the order they finish.

    `jobs` is consumed lazily, so that a generator may decide on later jobs from earlier results; where it has none
    until another result is in, it yields None. When the caller is interrupted or stops early, no further job starts
    and `on_cancel` is called: it must make running work fail fast (close the sandboxes, the policy), since its
    threads are waited for.
    """
    todo = iter(jobs)
    with ThreadPoolExecutor(concurrency, thread_name_prefix="attempt") as pool:
        running: dict[Future[T], J] = {}
        try:
            while True:
                for job in islice(todo, concurrency - len(running)):
                    if job is None:
                        break
                    running[pool.submit(work, job)] = job
                if not running:
                    return
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    yield running.pop(future), future.result()
        except BaseException:
            on_cancel()
            raise


def lost_cause(trajectory: Trajectory) -> Fault | None:
    """The fault of an attempt that no further attempt can escape (a wrong key, a missing model), if any."""
    fault = trajectory.fault
    if fault and fault.attributable == "client" and fault.retry == "never":
        return fault
    return None


def tally(trajectories: Iterable[Trajectory]) -> dict[str, int]:
    """Counts by outcome, in the order of `Outcome`, without zeros."""
    counts: dict[str, int] = dict.fromkeys(Outcome, 0)
    for trajectory in trajectories:
        counts[trajectory.outcome] += 1
    return {str(k): v for k, v in counts.items() if v}
