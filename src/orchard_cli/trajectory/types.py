"""The one record of an attempt, frozen and versioned. Everything else is derived from it.

A `Trajectory` holds the messages, what was executed, and for policies that give them the exact tokens: a
`Ledger` of ids in order, cut into `Run`s that say per token where it came from (policy, template or
environment), which weights sampled it, and why it must not be trained on (`mask`, empty if it may).
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Literal

import msgspec

from ..errors import Fault
from ..outcome import Outcome
from ..task import Split

SCHEMA = 1


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base of all parts of the record: immutable, and unknown fields are an error."""


class Origin(StrEnum):
    POLICY = "policy"
    TEMPLATE = "template"
    ENVIRONMENT = "environment"


class ToolCall(Record, frozen=True):
    id: str
    name: str
    arguments: dict[str, Any]


class Message(Record, frozen=True):
    role: Literal["system", "user", "assistant", "tool"]
    content: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    images: tuple[str, ...] = ()  # sha256 hex of pictures in the run's blob store (`Blobs`); they follow the text


class Usage(Record, frozen=True):
    """Tokens and money of model calls. Costs are US dollars, 0 where the price is unknown."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cost_usd + other.cost_usd,
        )


class Run(Record, frozen=True):
    """`length` neighbouring tokens of a ledger that share everything but their id and log-probability."""

    length: int
    origin: Origin
    weight_version: int = -1  # -1: not sampled by us
    mask: str = ""  # why these tokens may not be trained on; always set unless origin is policy


class Shown(Record, frozen=True):
    """A picture in a sequence of tokens: `length` placeholder tokens from `start` on stand for the blob `sha`."""

    sha: str
    start: int
    length: int
    turn: int = 0  # the turn before which it came, from 1; 0: not known


class Ledger(Record, frozen=True):
    """Token-exact account of one prompt-to-end sequence.

    ids: T token ids in order. runs: their lengths sum to T. logprobs: one natural-log probability for each
    policy token, in order, at the sampling temperature, as the engine gave it; never re-computed. images: the
    pictures among the tokens, in order; their tokens are the environment's.
    """

    ids: tuple[int, ...]
    runs: tuple[Run, ...]
    logprobs: tuple[float, ...] = ()
    images: tuple[Shown, ...] = ()

    def spans(self) -> Iterator[tuple[int, int, Run]]:
        """(start, end, run) for every run, in order."""
        at = 0
        for run in self.runs:
            yield at, at + run.length, run
            at += run.length


class Executed(Record, frozen=True):
    """What the environment did with one action."""

    exit_code: int | None
    reason: str = "exited"  # exited | signaled | timeout | oom | …; of tool calls the first code that is not `ok`
    wall_s: float = 0.0
    output_bytes: int = 0
    truncated_bytes: int = 0
    codes: tuple[str, ...] = ()  # how each tool call ended, in order; empty for a command


class Step(Record, frozen=True):
    """One turn: the assistant message `reply`, what it asked for, and the observation that came back."""

    reply: int  # index into messages
    action: str = ""  # the command, or the tool calls a line each, as executed; empty if none could be parsed
    observation: int = -1  # index into messages; -1 if the attempt ended here
    executed: Executed | None = None
    span: tuple[int, int] | None = None  # [start, end) of the sampled tokens in `ledger`
    finish: str = "stop"  # stop | length | tool_calls
    wall_s: float = 0.0
    ledger: int = 0  # which of the trajectory's ledgers: one begins whenever older pictures leave the prompt


class Trajectory(Record, frozen=True):
    """One attempt at one task, from first prompt to grade."""

    id: str
    task_id: str
    domain: str
    policy: str
    harness: str
    messages: tuple[Message, ...]
    steps: tuple[Step, ...]
    outcome: Outcome
    stop: str  # submitted | step_limit | time_limit | over_time | token_limit | format_errors | error | cancelled
    schema: int = msgspec.field(default_factory=lambda: SCHEMA)  # a factory: written even at its default
    split: Split = "train"
    family: str = ""
    stage: str = ""  # distill | rl | eval | check
    attempt: int = 0
    seed: int = 0
    ledgers: tuple[Ledger, ...] = ()
    tools: tuple[dict[str, Any], ...] = ()  # native tools that the policy was offered
    reward: float | None = None  # None where the outcome does not count
    artifact: str = ""  # what was graded, e.g. the diff
    grade: dict[str, Any] = {}
    fault: Fault | None = None
    usage: Usage = Usage()
    env: dict[str, Any] = {}  # isolation tier proven, limits in force
    started_at: str = ""  # ISO 8601, UTC
    wall_s: float = 0.0
