"""How a reply is written as text: thinking in `<think>` tags, then the answer, then tool calls in the Hermes form."""

import json
import re
from typing import Any

from ..trajectory import Message, ToolCall

_CALL = re.compile(r"\s*<tool_call>\s*(.*?)\s*</tool_call>\s*", re.DOTALL)
_CLOSE = "</think>"


def parse(text: str, *, tools: bool = False, first_call: int = 0) -> Message:
    """Read what a model wrote. Whatever is broken, a call that is no JSON say, stays in the text as it was.

    Thinking may lack its opening tag: some templates write it into the prompt. Calls are looked for only with
    `tools`, and only after the thinking; they get the ids `call_<first_call>`, …
    """
    reasoning, rest = _thinking(text)
    calls = _calls(rest, first_call) if tools else ()
    if calls:
        rest = _CALL.sub("", rest)
    return Message("assistant", rest, reasoning, calls)


def write(message: Message) -> str:
    """The inverse of `parse`, for templates that cannot be asked."""
    thinking = f"<think>\n{message.reasoning}\n</think>\n\n" if message.reasoning else ""
    calls = [
        f'<tool_call>\n{{"name": {json.dumps(c.name)}, "arguments": {json.dumps(c.arguments, ensure_ascii=False)}}}\n'
        "</tool_call>"
        for c in message.tool_calls
    ]
    return thinking + "\n".join([message.content, *calls] if message.content else calls)


def _thinking(text: str) -> tuple[str, str]:
    thought, close, rest = text.partition(_CLOSE)
    opened = thought.lstrip().startswith("<think>")
    if not close or ("<think>" in thought and not opened):
        return "", text
    return thought.lstrip().removeprefix("<think>").strip("\n"), rest.lstrip("\n")


def _calls(text: str, first: int) -> tuple[ToolCall, ...]:
    """All calls, or none if one of them is broken."""
    calls = []
    for number, body in enumerate(_CALL.findall(text), first):
        try:
            said: Any = json.loads(body)
        except (ValueError, RecursionError):
            return ()
        if not isinstance(said, dict) or not isinstance(said.get("name"), str):
            return ()
        arguments = said.get("arguments", {})
        if not isinstance(arguments, dict):
            return ()
        calls.append(ToolCall(f"call_{number}", said["name"], arguments))
    return tuple(calls)
