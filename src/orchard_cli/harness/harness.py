"""The harness protocol: (task, sandbox, policy) → what happened."""

from dataclasses import dataclass
from typing import Any, Protocol

from ..env.sandbox import Sandbox
from ..errors import Fault
from ..policy.policy import Policy, Sampling
from ..task import Task
from ..trajectory import Ledger, Message, Step, Usage


@dataclass(frozen=True)
class Transcript:
    """What a harness leaves: the part of a trajectory that is known before grading."""

    messages: tuple[Message, ...]
    steps: tuple[Step, ...]
    ledgers: tuple[Ledger, ...]
    usage: Usage
    stop: str  # submitted | step_limit | time_limit | over_time | token_limit | format_errors | error | cancelled
    fault: Fault | None = None  # set if and only if stop is `error`
    tools: tuple[dict[str, Any], ...] = ()  # native tools that the policy was offered, as chat endpoints take them


class Harness(Protocol):
    """How a policy attempts a task.

    `forkable`: an attempt can go on in a fork of its sandbox. Then all that it did lies in files (most forks copy no
    processes), and each `Step.action` is a shell command that does the same again.
    """

    name: str
    forkable: bool

    def run(
        self,
        task: Task,
        sandbox: Sandbox,
        policy: Policy,
        sampling: Sampling,
        *,
        resume: Transcript | None = None,
    ) -> Transcript:
        """Let the policy act until it submits or a limit cuts it; a fault ends up in the transcript.

        `resume` continues a transcript, for branching; the limits count its steps too.
        """
        ...
