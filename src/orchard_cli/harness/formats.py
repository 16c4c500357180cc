"""How an action is written in a reply: a fenced command in the text, or a native tool call.

Both follow mini-SWE-agent (formats reference, 1.3): one action a turn; anything else is a format error that
the policy is told about.
"""

import re
from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

from .. import schema
from ..errors import ConfigError
from ..trajectory import Message, ToolCall

F = TypeVar("F")

FENCE = re.compile(r"```(?:mswea_bash_command|bash)[ \t]*\n(.*?)\n?```", re.DOTALL)
BASH_TOOL = {
    "type": "function",
    "function": {
        "name": "bash",
        "description": "Run a bash command in the sandbox.",
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string", "description": "The command to run."}},
            "required": ["command"],
            "additionalProperties": False,
        },
    },
}


class FormatError(Exception):
    """A reply has no action, or more than one; the message is shown to the policy."""


def runnable(command: str) -> str:
    """The command without blanks around it. Raises `FormatError` for what no shell can be given."""
    try:
        command.encode()
    except UnicodeEncodeError:
        raise FormatError("the command is not valid text") from None
    if "\0" in command:
        raise FormatError("the command holds a NUL byte")
    return command.strip()


class Format(Protocol):
    name: str
    tools: tuple[dict[str, Any], ...]

    def encode(self, command: str, thought: str = "") -> Message:
        """An assistant message that asks for `command`."""
        ...

    def parse(self, message: Message) -> str:
        """The one command that the message asks for. Raises `FormatError`."""
        ...

    def observe(self, message: Message, text: str) -> Message:
        """The message that answers the action in `message` with an observation."""
        ...


class Fence:
    """One ```bash block in the text (mini-SWE-agent v1, and v2's `mswea_bash_command`)."""

    name = "fence"
    tools: tuple[dict[str, Any], ...] = ()

    def encode(self, command: str, thought: str = "") -> Message:
        text = f"{thought}\n" if thought else ""
        return Message("assistant", f"{text}```bash\n{command}\n```")

    def parse(self, message: Message) -> str:
        found = FENCE.findall(message.content)
        if len(found) != 1:
            raise FormatError(f"found {len(found)} commands")
        return runnable(found[0])

    def observe(self, message: Message, text: str) -> Message:
        return Message("user", text)


class Tool:
    """One call of the native `bash` tool."""

    name = "tool"
    tools: tuple[dict[str, Any], ...] = (BASH_TOOL,)

    def encode(self, command: str, thought: str = "") -> Message:
        return Message("assistant", thought, tool_calls=(ToolCall("call_0", "bash", {"command": command}),))

    def parse(self, message: Message) -> str:
        if len(message.tool_calls) != 1:
            raise FormatError(f"found {len(message.tool_calls)} tool calls")
        call = message.tool_calls[0]
        command = call.arguments.get("command")
        if call.name != "bash" or set(call.arguments) != {"command"} or not isinstance(command, str):
            raise FormatError(f"`{call.name}` called with {sorted(call.arguments)}")
        return runnable(command)

    def observe(self, message: Message, text: str) -> Message:
        if len(message.tool_calls) == 1:
            return Message("tool", text, tool_call_id=message.tool_calls[0].id)
        return Message("user", text)


FORMATS: dict[str, Format] = {"fence": Fence(), "tool": Tool()}


def chosen(config: schema.Harness, kind: str, formats: Mapping[str, F]) -> F:
    """The format that `harness.format` names, of those that the loop called `kind` speaks. Raises `ConfigError`."""
    if config.kind != kind:
        raise ConfigError(f"harness.kind is `{config.kind}`; these tasks need `{kind}`", hint=f"harness={kind}")
    if config.format not in formats:
        raise ConfigError(
            f"harness.format is `{config.format}`, which harness.kind={kind} does not speak",
            hint=f"harness.format is {' or '.join(formats)}",
        )
    return formats[config.format]
