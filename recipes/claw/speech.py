"""How a script speaks to a harness: a call as the message that makes it, and a conversation as the calls made."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from orchard_cli.harness.calls import CallFormat
from orchard_cli.harness.formats import FormatError
from orchard_cli.trajectory import Message, ToolCall


@dataclass(frozen=True)
class Turn:
    """One call and what was shown after it (after all calls of the turn, where they were several)."""

    call: ToolCall
    result: str


class Speech(Protocol):
    def say(self, call: ToolCall) -> Message: ...

    def turns(self, messages: Sequence[Message]) -> list[Turn]:
        """The calls of a conversation in order; replies that hold none are left out."""
        ...


class ToolSpeech:
    """For `ReactLoop`, in either of its formats."""

    def __init__(self, format: CallFormat):
        self._format = format

    def say(self, call: ToolCall) -> Message:
        return self._format.encode([call])

    def turns(self, messages: Sequence[Message]) -> list[Turn]:
        found: list[Turn] = []
        for i, message in enumerate(messages):
            if message.role != "assistant":
                continue
            try:
                calls = self._format.parse(message)
            except FormatError:
                continue
            found += [Turn(call, shown(messages, i)) for call in calls]
        return found


def shown(messages: Sequence[Message], at: int) -> str:
    """What followed the message at `at`, up to the next reply."""
    texts = []
    for message in messages[at + 1 :]:
        if message.role == "assistant":
            break
        texts.append(message.content)
    return "\n".join(texts)
