"""A policy whose replies are code, not a model: oracles, scripted teachers, tests."""

from collections.abc import Callable, Sequence
from typing import Any

from ..trajectory import Message, Usage
from .policy import Reply, Sampling


class ScriptedPolicy:
    """Answers with `respond(messages)`: a pure function of the conversation, so that an attempt can be resumed."""

    def __init__(self, name: str, respond: Callable[[Sequence[Message]], Message]):
        self.name = name
        self._respond = respond

    @classmethod
    def replies(cls, name: str, replies: Sequence[Message]) -> "ScriptedPolicy":
        """Say `replies` in order, one a turn; the last one is repeated."""

        def respond(messages: Sequence[Message]) -> Message:
            said = sum(m.role == "assistant" for m in messages)
            return replies[min(said, len(replies) - 1)]

        return cls(name, respond)

    def reply(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] = (),
        sampling: Sampling,
        previous: Reply | None = None,
    ) -> Reply:
        message = self._respond(messages)
        finish = "tool_calls" if message.tool_calls else "stop"
        return Reply(message, finish, Usage(calls=1), n_messages=len(messages))

    def close(self) -> None:
        pass
