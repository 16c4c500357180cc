"""The harness protocol: (task, sandbox, policy) → what happened."""

from dataclasses import dataclass
from typing import Protocol

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
    stop: str  # submitted | step_limit | time_limit | token_limit | format_errors | error | cancelled
    fault: Fault | None = None  # set if and only if stop is `error`


class Harness(Protocol):
    name: str

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
