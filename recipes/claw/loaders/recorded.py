"""Keeps what was said in an attempt for graders that read it. On the host, where no agent can rewrite it."""

import threading
from collections.abc import Sequence

from orchard_cli.env.sandbox import Sandbox
from orchard_cli.harness.harness import Harness, Transcript
from orchard_cli.policy.policy import Policy, Sampling
from orchard_cli.task import Task
from orchard_cli.trajectory import Message


class Said:
    """The messages of attempts by sandbox; taken once. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, Sequence[Message]] = {}

    def keep(self, sandbox: str, messages: Sequence[Message]) -> None:
        with self._lock:
            self._kept[sandbox] = messages

    def take(self, sandbox: str) -> Sequence[Message]:
        with self._lock:
            return self._kept.pop(sandbox, ())


class Recorded:
    """A harness that also keeps the messages of attempts that were submitted."""

    def __init__(self, inner: Harness, said: Said):
        self.name, self.forkable = inner.name, inner.forkable
        self._inner, self._said = inner, said

    def run(
        self,
        task: Task,
        sandbox: Sandbox,
        policy: Policy,
        sampling: Sampling,
        *,
        resume: Transcript | None = None,
    ) -> Transcript:
        transcript = self._inner.run(task, sandbox, policy, sampling, resume=resume)
        if transcript.stop == "submitted":
            self._said.keep(sandbox.id, transcript.messages)
        return transcript
