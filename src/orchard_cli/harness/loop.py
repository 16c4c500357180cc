"""The loop to read first: ask the policy, run its one command, show it what happened, until it submits.

This is mini-SWE-agent's loop (formats reference, section 1): each command in a fresh shell, one action a turn, a
sentinel on the first line of a successful command's output submits. What differs: a faulty reply stays in the
history, so that every prompt extends the one before it token for token.
"""

import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from .. import schema
from ..env.sandbox import ExecResult, Sandbox
from ..errors import AttemptError, PolicyError
from ..policy.policy import Policy, Reply, Sampling
from ..task import Task
from ..trajectory import Executed, Message, Step, Usage
from .formats import FORMATS, FormatError
from .harness import Transcript
from .ledger import LedgerBuilder
from .prompts import Prompts

SENTINELS = ("COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "MINI_SWE_AGENT_FINAL_OUTPUT")


@dataclass
class _Attempt:
    """What grows while one attempt runs."""

    messages: list[Message]
    steps: list[Step] = field(default_factory=list)
    ledger: LedgerBuilder = field(default_factory=LedgerBuilder)
    usage: Usage = field(default_factory=Usage)
    previous: Reply | None = None
    faulty: int = 0  # unparsable replies in a row
    started: float = field(default_factory=time.monotonic)


class MiniLoop:
    """One bash tool, one action a turn. Built for each attempt's domain; holds no state of an attempt."""

    name = "mini"

    def __init__(self, config: schema.Harness, prompts: Path):
        self.config = config
        self.format = FORMATS[config.format]
        self.prompts = Prompts(prompts)

    def run(
        self,
        task: Task,
        sandbox: Sandbox,
        policy: Policy,
        sampling: Sampling,
        *,
        resume: Transcript | None = None,
    ) -> Transcript:
        at = self._start(task, resume)
        if resume:
            at.ledger.forget()  # sampled ids of the prefix are not ours to extend
        stop, fault = "", None
        while not stop:
            try:
                stop = self._limit(at) or self._turn(at, sandbox, policy, sampling)
            except AttemptError as error:
                stop, fault = "error", error.fault
        ledgers, steps = at.ledger.build(), tuple(at.steps)
        if not ledgers:  # spans point into a ledger
            steps = tuple(msgspec.structs.replace(s, span=None) for s in steps)
        return Transcript(tuple(at.messages), steps, ledgers, at.usage, stop, fault)

    def _start(self, task: Task, resume: Transcript | None) -> _Attempt:
        if resume:
            return _Attempt(list(resume.messages), list(resume.steps))
        system = self.prompts.system(task).strip()
        first = [Message("system", system)] if system else []
        return _Attempt([*first, Message("user", self.prompts.instance(task).strip())])

    def _limit(self, at: _Attempt) -> str:
        if len(at.steps) >= self.config.max_steps:
            return "step_limit"
        if time.monotonic() - at.started > self.config.max_time_s:
            return "time_limit"
        return ""

    def _turn(self, at: _Attempt, sandbox: Sandbox, policy: Policy, sampling: Sampling) -> str:
        """One reply, one command, one observation. The reason to stop, or empty."""
        began = time.monotonic()
        sampling = replace(sampling, seed=sampling.seed * 1000 + len(at.steps))
        try:
            reply = policy.reply(at.messages, tools=self.format.tools, sampling=sampling, previous=at.previous)
        except PolicyError as error:
            if error.fault.code == "context_overflow":
                return "token_limit"
            raise
        at.usage += reply.usage
        span = at.ledger.add(reply)
        at.previous = reply
        at.messages.append(reply.message)
        step = Step(reply=len(at.messages) - 1, span=span, finish=reply.finish)
        step, stop = self._act(at, sandbox, reply, step)
        at.steps.append(msgspec.structs.replace(step, wall_s=round(time.monotonic() - began, 4)))
        return stop

    def _act(self, at: _Attempt, sandbox: Sandbox, reply: Reply, step: Step) -> tuple[Step, str]:
        try:
            command = self.format.parse(reply.message)
        except FormatError as error:
            at.faulty += 1
            if at.faulty >= self.config.format_errors:
                return step, "format_errors"
            return self._observe(at, reply.message, self.prompts.format_error(str(error)), step), ""
        at.faulty = 0
        result = sandbox.exec(command, timeout_s=self.config.exec_timeout_s, merge=True)
        step = msgspec.structs.replace(step, action=command, executed=_executed(result))
        if submitted(result):
            return step, "submitted"
        text = self.prompts.observation(result, self.config.observation_chars)
        return self._observe(at, reply.message, text, step), ""

    def _observe(self, at: _Attempt, said: Message, text: str, step: Step) -> Step:
        at.messages.append(self.format.observe(said, text))
        return msgspec.structs.replace(step, observation=len(at.messages) - 1)


def submitted(result: ExecResult) -> bool:
    """True if a command succeeded and the first line of its output is a submission sentinel."""
    first = result.stdout.lstrip().split(b"\n", 1)[0].strip()
    return result.ok and first.decode(errors="replace") in SENTINELS


def _executed(result: ExecResult) -> Executed:
    return Executed(
        result.exit_code,
        result.reason,
        round(result.wall_s, 4),
        result.stdout_bytes + result.stderr_bytes,
        result.truncated_bytes,
    )
