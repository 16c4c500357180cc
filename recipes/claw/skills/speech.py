"""How a script speaks to the skills harness: each call is one command."""

from collections.abc import Sequence

from orchard_cli.harness.formats import Format, FormatError
from orchard_cli.trajectory import Message, ToolCall

from ..speech import Turn, shown
from .commands import call_of, command


class CommandSpeech:
    """A `Speech` for `SkillsLoop`, in either of its formats."""

    def __init__(self, format: Format):
        self._format = format

    def say(self, call: ToolCall) -> Message:
        return self._format.encode(command(call))

    def turns(self, messages: Sequence[Message]) -> list[Turn]:
        found: list[Turn] = []
        for at, message in enumerate(messages):
            if message.role != "assistant":
                continue
            try:
                call = call_of(self._format.parse(message))
            except FormatError:
                continue
            if call:
                found.append(Turn(call, shown(messages, at)))
        return found
