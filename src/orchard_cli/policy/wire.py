"""Messages as chat completions writes and reads them."""

import json
from typing import Any

from ..trajectory import Message, ToolCall


def to_wire(message: Message) -> dict[str, Any]:
    """A message as chat completions writes it; reasoning goes back where it came from, `reasoning_content`."""
    wire: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.reasoning:
        wire["reasoning_content"] = message.reasoning
    if message.tool_calls:
        wire["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)},
            }
            for call in message.tool_calls
        ]
    if message.role == "tool":
        wire["tool_call_id"] = message.tool_call_id
    return wire


def from_wire(wire: dict[str, Any]) -> Message:
    """The assistant's message. A call whose arguments are not a JSON object stays in the text as the model wrote
    it, so that the harness sees a format error and the policy is told.
    """
    content = _text(wire.get("content")) or _text(wire.get("refusal"))
    reasoning = _text(wire.get("reasoning_content")) or _text(wire.get("reasoning"))
    calls, broken = [], []
    for number, call in enumerate(wire.get("tool_calls") or ()):
        name, written = str(call["function"]["name"]), call["function"].get("arguments") or ""
        arguments = _arguments(written)
        if arguments is None:
            broken.append(f"<tool_call>{name} {written}</tool_call>")
        else:
            calls.append(ToolCall(str(call.get("id") or f"call_{number}"), name, arguments))
    return Message(
        "assistant", "\n".join([content, *broken]).lstrip("\n") if broken else content, reasoning, tuple(calls)
    )


def _arguments(written: Any) -> dict[str, Any] | None:
    if isinstance(written, dict):
        return written
    try:
        arguments = json.loads(written) if written else {}
    except (ValueError, TypeError, RecursionError):
        return None
    return arguments if isinstance(arguments, dict) else None


def _text(value: Any) -> str:
    if isinstance(value, list):  # some endpoints answer in parts
        return "".join(str(part.get("text", "")) for part in value if isinstance(part, dict))
    return value if isinstance(value, str) else ""
