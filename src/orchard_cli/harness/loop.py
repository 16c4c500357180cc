"""The loop to read first: ask the policy, run its one command, show it what happened, until it submits.

This is mini-SWE-agent's loop (formats reference, section 1): each command in a fresh shell, one action a turn, a
sentinel on the first line of a successful command's output submits. What differs: a faulty reply stays in the
history, so that every prompt extends the one before it token for token.
"""

from pathlib import Path

from .. import schema
from ..env.sandbox import ExecResult, Sandbox
from ..policy.policy import Policy, Sampling
from ..task import Task
from ..trajectory import Executed, Message
from .attempt import Attempt
from .formats import FORMATS, FormatError, chosen
from .harness import Transcript
from .prompts import Prompts

SENTINELS = ("COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "MINI_SWE_AGENT_FINAL_OUTPUT")


class MiniLoop:
    """One bash tool, one action a turn. Built for each attempt's domain; holds no state of an attempt.

    Raises `ConfigError` if `config` asks for another kind of loop, or for a format that this one does not speak.
    """

    name = "mini"
    forkable = True

    def __init__(self, config: schema.Harness, prompts: Path):
        self.config = config
        self.format = chosen(config, self.name, FORMATS)
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
        at = Attempt.of(self.config, resume, sampling.turns)
        at.tools = self.format.tools
        with at.guarded():
            at.begin(self._first(task))
            at.run(lambda: self._turn(at, sandbox, policy, sampling))
        return at.transcript()

    def _first(self, task: Task) -> list[Message]:
        system = self.prompts.system(task).strip()
        first = [Message("system", system)] if system else []
        return [*first, Message("user", self.prompts.instance(task).strip())]

    def _turn(self, at: Attempt, sandbox: Sandbox, policy: Policy, sampling: Sampling) -> str:
        """One reply, one command, one observation. The reason to stop, or empty."""
        said = at.ask(policy, sampling)
        if said is None:
            return "token_limit"
        try:
            command = self.format.parse(said)
        except FormatError as error:
            return at.refuse([self.format.observe(said, self.prompts.format_error(str(error)))])
        result = sandbox.exec(command, timeout_s=self.config.exec_timeout_s, merge=True)
        done = {"action": command, "executed": _executed(result)}
        if submitted(result):
            at.end((), **done)
            return "submitted"
        text = self.prompts.observation(result, self.config.observation_chars)
        at.end([self.format.observe(said, text)], **done)
        return ""


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
