"""Measured credit: go back to a key step, let a policy finish from there k times, count what is solved.

One replay of the recorded commands for each attempt: the sandbox is forked on the way, after every command that
changed its files. V(s_t) is the solved share of the finishes that start in the fork before step t. Finishes that end
in an infrastructure or verifier error leave the count, and are counted as such.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from ..domain import Domain
from ..env.sandbox import Env, Sandbox
from ..errors import AttemptError, Fault, HarnessError, SandboxError, boundary
from ..harness.harness import Transcript
from ..outcome import Outcome, wilson
from ..policy.policy import Policy, Sampling
from ..rollout import derive_seed, judge
from ..task import Task
from ..trajectory import Trajectory, Usage
from .record import Finding
from .value import Anchor, curve

PolicyFor = Callable[[int], Policy]  # by seed, so that a scripted policy can err differently each time


@dataclass
class _Tally:
    usage: Usage = field(default_factory=Usage)
    problems: Counter[str] = field(default_factory=Counter)
    note: str = ""

    def fault(self, fault: Fault) -> None:
        self.problems[f"{fault.domain}.{fault.code}"] += 1
        self.note = fault.message


def measure(
    trajectory: Trajectory,
    task: Task,
    domain: Domain,
    env: Env,
    policy: PolicyFor,
    sampling: Sampling,
    *,
    samples: int,
    anchors: int,
    seed: int,
    timeout_s: float = 60.0,
) -> Finding:
    """Measure the value curve of `trajectory` at the start and after its state-changing commands.

    At most `anchors` points, the known end among them, each with `samples` finishes counted as a binomial (95 %
    Wilson interval). Never raises for what happens inside sandboxes: no curve, and the problem by name.
    """
    tally = _Tally()
    found: list[Anchor] = []
    with ExitStack() as stack:
        try:
            forks = _replay(trajectory, task, domain, env, stack, tally, most=anchors - 1, timeout_s=timeout_s)
        except AttemptError as error:
            tally.fault(error.fault)
            forks = []
        finish = _Finish(task, domain, env, policy, sampling, tally)
        for step, start in forks:
            drawn = [derive_seed(seed, trajectory.id, step, sample) for sample in range(samples)]
            solved = finish.each(start, before(trajectory, step), drawn)
            if solved:
                low, high = wilson(sum(solved), len(solved))
                found.append(Anchor(step, sum(solved) / len(solved), low, high, len(solved)))
    made = None
    if found:
        made = curve(len(trajectory.steps), tuple(found), resolved=trajectory.outcome is Outcome.SOLVED)
    return Finding(made, tally.usage, dict(tally.problems), tally.note)


def before(trajectory: Trajectory, step: int) -> Transcript:
    """What the agent had seen and done before step `step`, for a harness to go on from."""
    messages = trajectory.messages[: trajectory.steps[step].reply]
    return Transcript(messages, trajectory.steps[:step], (), Usage(), "")


def spread(candidates: list[int], most: int) -> list[int]:
    """At most `most` of the candidates, the first and the last among them, evenly spread by rank."""
    if len(candidates) <= most:
        return candidates
    if most <= 1:
        return candidates[:most]
    return [candidates[round(i * (len(candidates) - 1) / (most - 1))] for i in range(most)]


def _replay(
    trajectory: Trajectory,
    task: Task,
    domain: Domain,
    env: Env,
    stack: ExitStack,
    tally: _Tally,
    *,
    most: int,
    timeout_s: float,
) -> list[tuple[int, "_Start"]]:
    """Forks (step, sandbox as it was before that step): the start, and after commands that changed files.

    The last step is not replayed: the state after it is the end, whose value is known. Stops early where the
    replay departs from the record, since later states would not be those of the attempt.
    """
    forks: dict[int, _Start] = {}
    with boundary(SandboxError, "opening the sandbox"):
        sandbox = stack.enter_context(env.open(domain.spec(task)))
    with boundary(SandboxError, "preparing the sandbox"):
        domain.prepare(task, sandbox)
    here = _Start(sandbox, tally)
    forks[0] = here.fork(stack)
    state = sandbox.diff()
    for at, step in enumerate(trajectory.steps[:-1]):
        if step.executed is None:
            continue
        result = sandbox.exec(step.action, timeout_s=timeout_s, merge=True)
        if (result.exit_code, result.reason) != (step.executed.exit_code, step.executed.reason):
            tally.problems["replay_departed"] += 1
            tally.note = f"step {at}: exit {result.exit_code}, recorded {step.executed.exit_code}"
            break
        here.alive = here.alive or bool(result.left_running)
        if (now := sandbox.diff()) != state:
            state = now
            forks[at + 1] = here.fork(stack)
            if len(forks) > 2 * most:  # a long attempt must not hold a fork for each of its edits
                _drop(forks, spread(sorted(forks), most))
    _drop(forks, spread(sorted(forks), most))
    return sorted(forks.items())


def _drop(forks: dict[int, "_Start"], keep: list[int]) -> None:
    for step in sorted(set(forks) - set(keep)):
        forks.pop(step).sandbox.close()


@dataclass
class _Start:
    """A sandbox to go on from; `alive` when commands have left something running in it."""

    sandbox: Sandbox
    tally: _Tally
    alive: bool = False

    def fork(self, stack: ExitStack) -> "_Start":
        """With what runs, where the back end can copy that; else it is counted that something was left behind."""
        if self.alive:
            try:
                return _Start(stack.enter_context(self.sandbox.fork(processes=True)), self.tally, alive=True)
            except SandboxError as error:
                if error.fault.code != "client.unsupported":
                    raise
                self.tally.problems["processes_not_copied"] += 1
        return _Start(stack.enter_context(self.sandbox.fork()), self.tally)


@dataclass
class _Finish:
    """Lets the policy go on from a fork, and judges what it leaves."""

    task: Task
    domain: Domain
    env: Env
    policy: PolicyFor
    sampling: Sampling
    tally: _Tally

    def each(self, start: _Start, prefix: Transcript, seeds: list[int]) -> list[bool]:
        """Solved or not, for each seed about which something can be said."""
        solved: list[bool] = []
        for seed in seeds:
            try:
                said = self._once(start, prefix, seed)
            except AttemptError as error:
                self.tally.fault(error.fault)
            else:
                solved += [] if said is None else [said]
        return solved

    def _once(self, start: _Start, prefix: Transcript, seed: int) -> bool | None:
        """Solved or not; None, or `AttemptError`, where nothing can be said."""
        policy, sampling = self.policy(seed), replace(self.sampling, seed=seed)
        with ExitStack() as stack:
            sandbox = start.fork(stack).sandbox
            with boundary(HarnessError, "running the harness"):
                ended = self.domain.harness(self.task).run(self.task, sandbox, policy, sampling, resume=prefix)
            self.tally.usage += ended.usage
            artifact = ""
            if ended.stop == "submitted":
                with boundary(SandboxError, "exporting the result"):
                    artifact = self.domain.export(self.task, sandbox)
        outcome, _, fault = judge(self.task, ended, artifact, ended.fault, self.domain, self.env)
        if not outcome.counts:
            self.tally.fault(fault or Fault("harness", outcome.value, "the attempt was cancelled"))
            return None
        return outcome is Outcome.SOLVED
