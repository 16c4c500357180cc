"""A call as the command that makes it, and back: what scripts and readers of transcripts need."""

import math
import shlex
from typing import Any

from orchard_cli.trajectory import ToolCall

from ..world.service.cli import found, parsed
from ..world.service.operations import OPERATIONS, Argument


def command(call: ToolCall) -> str:
    """`claw mail read m1`: required arguments in order, the others by name. For operations that exist."""
    operation = OPERATIONS[call.name]
    words, plain = ["claw", *operation.words], True
    for argument in operation.arguments:
        if argument.name not in call.arguments:
            plain = False  # the next word would be taken for this one
            continue
        word = _word(call.arguments[argument.name])
        if argument.required and plain and not word.startswith("--"):
            words.append(shlex.quote(word))
        else:
            words.append(f"--{argument.name}={shlex.quote(word)}")
    return " ".join(words)


def call_of(text: str, id: str = "call_0") -> ToolCall | None:
    """The call that a command line makes; None where it is not just one `claw` command."""
    try:
        words = shlex.split(text, comments=False)
    except ValueError:
        return None
    operation, rest = found(words[1:]) if words[:1] == ["claw"] else (None, [])
    if operation is None:
        return None
    try:
        values = parsed(operation, rest)
    except ValueError:
        return None
    kinds = {argument.name: argument for argument in operation.arguments}
    return ToolCall(id, operation.name, {name: _value(kinds[name], word) for name, word in values.items()})


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _value(argument: Argument, word: str) -> Any:
    """Typed as the native call would have it; a word that is not of its type stays one."""
    try:
        if argument.type == "integer":
            return int(word)
        if argument.type == "number" and math.isfinite(number := float(word)):
            return number
    except ValueError:
        return word
    return {"true": True, "false": False}.get(word, word) if argument.type == "boolean" else word
