"""What grows while one attempt runs, and what ends it: the part that every loop of ours shares."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from .. import schema
from ..errors import AttemptError, Fault, HarnessError, PolicyError, boundary
from ..policy.policy import Policy, Reply, Sampling
from ..trajectory import Message, Step, Usage
from .harness import Transcript
from .ledger import LedgerBuilder


@dataclass
class Attempt:
    """Messages, steps, tokens and limits of one attempt. A turn is `ask`, then `end` or `refuse`."""

    config: schema.Harness
    messages: list[Message] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    tools: tuple[dict[str, Any], ...] = ()  # native tools that the policy is offered
    turns: int = 0  # fewer than the configuration's, if not 0
    ledger: LedgerBuilder = field(default_factory=LedgerBuilder)
    usage: Usage = field(default_factory=Usage)
    previous: Reply | None = None
    faulty: int = 0  # unparsable replies in a row
    stop: str = ""
    fault: Fault | None = None
    started: float = field(default_factory=time.monotonic)
    _began: float = 0.0
    _open: Step = field(default_factory=lambda: Step(-1))

    @classmethod
    def of(cls, config: schema.Harness, resume: Transcript | None, turns: int = 0) -> "Attempt":
        """A new one, or one that goes on from `resume`; the limits count its steps too."""
        if resume is None:
            return cls(config, turns=turns)
        made = cls(config, list(resume.messages), list(resume.steps), turns=turns)
        made.ledger.forget()  # sampled ids of the prefix are not ours to extend
        return made

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Whatever goes wrong inside ends the attempt as `error`; what happened before it is kept."""
        try:
            with boundary(HarnessError, "running the harness"):
                yield
        except AttemptError as error:
            self.stop, self.fault = "error", error.fault

    def begin(self, first: Sequence[Message]) -> None:
        """The first messages, unless it goes on from others; from here on time counts."""
        self.messages = self.messages or list(first)
        self.started = time.monotonic()

    def run(self, turn: Callable[[], str]) -> None:
        """Turn after turn, until one gives a reason to stop or a limit is reached."""
        while not self.stop:
            self.stop = self._limit() or turn()

    def _limit(self) -> str:
        if len(self.steps) >= min(self.turns or self.config.max_steps, self.config.max_steps):
            return "step_limit"
        if time.monotonic() - self.started > self.config.max_time_s:
            return "time_limit" if self.config.late == "failed" else "over_time"
        return ""

    def ask(self, policy: Policy, sampling: Sampling) -> Message | None:
        """The policy's next message, written down; None if the conversation is too long for it."""
        self._began = time.monotonic()
        sampling = replace(sampling, seed=sampling.seed * 1000 + len(self.steps))
        try:
            reply = policy.reply(self.messages, tools=self.tools, sampling=sampling, previous=self.previous)
        except PolicyError as error:
            if error.fault.code == "context_overflow":
                return None
            raise
        self.usage += reply.usage
        span = self.ledger.add(reply)
        self.previous = reply
        self.messages.append(reply.message)
        self._open = Step(reply=len(self.messages) - 1, span=span, finish=reply.finish, ledger=self.ledger.number)
        return reply.message

    def refuse(self, answer: Sequence[Message]) -> str:
        """End a turn whose reply could not be read. The reason to stop, if there were too many in a row."""
        self.faulty += 1
        if self.faulty >= self.config.format_errors:
            self._close(())
            return "format_errors"
        self._close(answer)
        return ""

    def end(self, answer: Sequence[Message], **done: Any) -> None:
        """End a turn: `answer` is what the policy is shown (empty if the attempt ends), `done` its step's fields."""
        self.faulty = 0
        self._close(answer, **done)

    def _close(self, answer: Sequence[Message], **done: Any) -> None:
        self.messages += answer
        seen = len(self.messages) - 1 if answer else -1
        wall_s = round(time.monotonic() - self._began, 4)
        self.steps.append(msgspec.structs.replace(self._open, observation=seen, wall_s=wall_s, **done))

    def transcript(self) -> Transcript:
        ledgers, steps = self.ledger.build(), tuple(self.steps)
        if not ledgers:  # spans point into a ledger
            steps = tuple(msgspec.structs.replace(s, span=None, ledger=0) for s in steps)
        return Transcript(tuple(self.messages), steps, ledgers, self.usage, self.stop, self.fault, self.tools)
