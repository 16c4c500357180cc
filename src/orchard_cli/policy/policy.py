"""The policy protocol: whatever answers a list of messages. A teacher is a policy that we do not train."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..trajectory import Message, Shown, Usage


@dataclass(frozen=True)
class Sampling:
    """How to sample one reply. temperature 0 is greedy. `max_tokens` bounds the reply, `max_context` prompt + reply.

    turns: of the whole attempt, where fewer are allowed than the harness has; 0: as many as the harness has.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int = 1024
    max_context: int = 32768
    seed: int = 0
    turns: int = 0


@dataclass(frozen=True)
class Reply:
    """One answer.

    Token fields are None for policies that do not give tokens. `prompt_ids` is the whole prompt as the engine
    saw it; for a continued conversation it starts with the previous `prompt_ids + ids`, id for id.
    `origins` has one letter for each prompt token beyond those: `t` template, `e` environment (content).
    A `fresh` prompt does not start so: older pictures have left it, its `origins` are for all of it.
    """

    message: Message
    finish: str  # stop | length | tool_calls
    usage: Usage
    prompt_ids: tuple[int, ...] | None = None
    ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None  # natural log, at the sampling temperature
    origins: str = ""  # for prompt_ids beyond the previous reply: "t" template, "e" environment
    weight_version: int = -1
    n_messages: int = 0  # how many messages the prompt covered
    images: tuple[Shown, ...] = ()  # the pictures in `prompt_ids`
    fresh: bool = False


class Policy(Protocol):
    """Thread-safe: many attempts ask at once."""

    name: str

    def reply(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] = (),
        sampling: Sampling,
        previous: Reply | None = None,
    ) -> Reply:
        """Answer. `previous` is this conversation's last reply: token policies extend its ids and never
        re-tokenise what was sampled. Raises `PolicyError`; `code="context_overflow"` if the prompt is too long.
        """
        ...

    def close(self) -> None: ...
