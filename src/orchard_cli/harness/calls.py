"""How several tool calls are written in one reply: a line of text each, or native calls. For `ReactLoop`."""

import re
from collections.abc import Sequence
from typing import Any, Protocol

from ..trajectory import Message, ToolCall
from . import literals
from .formats import FormatError
from .tools import ToolResult

MOST_CALLS = 32
DONE = "[ok]"  # said where there is nothing else to say: many endpoints refuse an empty message
_CALL = re.compile(r"[A-Za-z_][\w.-]*\((?:.*\)\s*$|\s*[A-Za-z_]\w*\s*=)", re.ASCII | re.DOTALL)


class CallFormat(Protocol):
    name: str

    def offered(self, specs: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
        """The native tools that a model is sent."""
        ...

    def described(self, specs: Sequence[dict[str, Any]]) -> str:
        """The tools in words, for the system prompt; empty where the model is sent them."""
        ...

    def encode(self, calls: Sequence[ToolCall], thought: str = "") -> Message:
        """An assistant message that makes `calls`."""
        ...

    def parse(self, message: Message) -> tuple[ToolCall, ...]:
        """The calls that the message makes, at least one. Raises `FormatError`."""
        ...

    def answers(self, message: Message, results: Sequence[ToolResult]) -> list[Message]:
        """The messages that show `results`, one for each call in `message`, or one for all."""
        ...


class Lines:
    """`name(key=value, …)`, one a line from its first character on; every other line is the thought."""

    name = "calls"

    def offered(self, specs: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
        return ()

    def described(self, specs: Sequence[dict[str, Any]]) -> str:
        return "\n".join(signature(spec) for spec in specs)

    def encode(self, calls: Sequence[ToolCall], thought: str = "") -> Message:
        lines = [f" {line}" if _CALL.match(line) else line for line in thought.split("\n")] if thought else []
        return Message("assistant", "\n".join([*lines, *map(literals.write, calls)]))

    def parse(self, message: Message) -> tuple[ToolCall, ...]:
        lines = [line for line in message.content.split("\n") if _CALL.match(line)]
        return counted([literals.read(line, f"call_{at}") for at, line in enumerate(lines[: MOST_CALLS + 1])])

    def answers(self, message: Message, results: Sequence[ToolResult]) -> list[Message]:
        text = "\n".join(result.text for result in results if result.text)
        images = tuple(image for result in results for image in result.images)
        return [Message("user", text or DONE, images=images)]


class Native:
    """The tool calls of chat endpoints; each is answered by a message of its own."""

    name = "tool"

    def offered(self, specs: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
        return tuple(specs)

    def described(self, specs: Sequence[dict[str, Any]]) -> str:
        return ""

    def encode(self, calls: Sequence[ToolCall], thought: str = "") -> Message:
        return Message("assistant", thought, tool_calls=tuple(calls))

    def parse(self, message: Message) -> tuple[ToolCall, ...]:
        if "<tool_call>" in message.content:  # a policy leaves a call in the text if its arguments are no JSON object
            raise FormatError("the arguments of a call are no JSON object")
        for call in message.tool_calls:
            literals.sound(call)
        return counted(message.tool_calls)

    def answers(self, message: Message, results: Sequence[ToolResult]) -> list[Message]:
        if not message.tool_calls:
            return Lines().answers(message, results)
        shown = list(results) * len(message.tool_calls) if len(results) == 1 else results
        pairs = zip(message.tool_calls, shown, strict=True)
        return [Message("tool", r.text or DONE, tool_call_id=call.id, images=r.images) for call, r in pairs]


def counted(calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    """The calls, if there are neither none nor too many. Raises `FormatError`."""
    if not calls:
        raise FormatError("found no tool call")
    if len(calls) > MOST_CALLS:
        raise FormatError(f"found more than {MOST_CALLS} tool calls")
    return tuple(calls)


def signature(spec: dict[str, Any]) -> str:
    """`name(key: type, …)  what it does`, from a JSON-schema function tool; optional arguments end in `?`."""
    function = spec["function"]
    parameters = function.get("parameters") or {}
    needed = parameters.get("required") or ()
    keys = [
        f"{key}{'' if key in needed else '?'}: {kind.get('type', 'any')}"
        for key, kind in (parameters.get("properties") or {}).items()
    ]
    return f"{function['name']}({', '.join(keys)})  {function.get('description', '')}".rstrip()


CALLS: dict[str, CallFormat] = {"calls": Lines(), "tool": Native()}
