"""The domain protocol: the few things that differ between coding, browsing and assisting."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from .env.sandbox import Env, Sandbox, Spec
from .harness.harness import Harness
from .policy.policy import Policy
from .task import Split, Task


@dataclass(frozen=True)
class Grade:
    """What grading says. `reward` in [0, 1]; `solved` decides the outcome; `details` is JSON for the record."""

    reward: float
    solved: bool
    details: Mapping[str, Any] = field(default_factory=dict)


class Domain(Protocol):
    """A recipe's behaviour. Built from its own config (`recipes/<name>/__init__.py: Config, Domain`).

    A domain that can show pictures has an attribute `blobs: Blobs | None`; the run's store is put there before the
    first attempt. Its `pictures` says whether it will: models that read text alone are then refused beforehand.
    One that holds something beyond its sandboxes may offer `close()`; it is called once, after the last stage.
    """

    name: str

    def tasks(self, split: Split) -> Iterator[Task]:
        """All tasks of a split, in a fixed order."""
        ...

    def harness(self, task: Task) -> Harness:
        """The loop for one attempt: `MiniLoop` where the agent has a shell, `ReactLoop` where it has a toolset.

        Loops refuse a `harness.kind` and `harness.format` that are not theirs; a domain with several chooses here.
        """
        ...

    def spec(self, task: Task) -> Spec:
        """What the agent's sandbox is made from."""
        ...

    def prepare(self, task: Task, sandbox: Sandbox) -> None:
        """Last touches inside the fresh sandbox, before the agent sees it."""
        ...

    def export(self, task: Task, sandbox: Sandbox) -> str:
        """What the agent leaves and the grader looks at (for swe: the diff; for services: their state, as JSON).

        Called once, in the attempt's sandbox, only if the agent submitted, and after its tools were closed. Processes
        of the sandbox still run then: a toolset's `close` drops its connections and no more, so that the state of a
        browser or a service can be read here. An attempt that a limit cut is never exported nor graded.
        """
        ...

    def grade(self, task: Task, artifact: str, env: Env) -> Grade:
        """Judge the artifact, in a fresh sandbox. Raises `GradeError` if it cannot be judged."""
        ...

    def script(self, task: Task, *, seed: int, error_rate: float) -> Policy:
        """A scripted policy that solves the task through the harness; errs with the given rate, by the seed."""
        ...

    def noop(self, task: Task) -> Policy:
        """Submits at once, having done nothing: `check` wants it to score 0.

        A domain may also offer `wrong(task) -> Sequence[Policy]`: plausible wrong ways, by distinct names, none of
        which may solve the task.
        """
        ...
