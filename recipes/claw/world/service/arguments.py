"""Arguments of a call, checked against the table of operations; a refusal says what is wrong with them."""

import math
from typing import Any

from .answer import Refusal
from .operations import Argument, Operation

MOST_CHARS = 100_000
LARGEST = 1_000_000_000
KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}
WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def checked(operation: Operation, given: Any, *, words: bool = False) -> dict[str, Any]:
    """Every argument with its value. `words`: all come as text, from a command line. Raises `Refusal`."""
    if not isinstance(given, dict):
        raise Refusal("bad_arguments", "the arguments must be an object")
    names = [argument.name for argument in operation.arguments]
    unknown = [str(name)[:40] for name in given if name not in names]
    if unknown:
        raise Refusal("bad_arguments", f"no argument {unknown[0]}; {operation.name} takes {', '.join(names) or 'none'}")
    missing = [argument.name for argument in operation.arguments if argument.required and argument.name not in given]
    if missing:
        raise Refusal("bad_arguments", f"{operation.name} needs {', '.join(missing)}")
    return {a.name: _value(a, given[a.name], words) if a.name in given else a.default for a in operation.arguments}


def _value(argument: Argument, value: Any, words: bool) -> Any:
    if words and argument.type != "string":
        value = _from_word(argument, value)
    right = isinstance(value, KINDS[argument.type]) and (argument.type == "boolean") == isinstance(value, bool)
    if not right:
        raise Refusal(
            "bad_arguments", f"{argument.name} must be a{'n' * (argument.type[0] in 'aeiou')} {argument.type}"
        )
    if isinstance(value, str):
        return _text(argument.name, value)
    if not math.isfinite(value) or abs(value) > LARGEST:
        raise Refusal("bad_arguments", f"{argument.name} is out of range")
    return float(value) if argument.type == "number" else value


def _from_word(argument: Argument, value: Any) -> Any:
    """What was meant, or the word itself, which is then of the wrong type."""
    word = str(value).strip()
    if argument.type == "boolean":
        return WORDS.get(word.lower(), value)
    try:
        return int(word[:20]) if argument.type == "integer" else float(word[:40])
    except ValueError:
        return value


def _text(name: str, value: str) -> str:
    if len(value) > MOST_CHARS:
        raise Refusal("bad_arguments", f"{name} is longer than {MOST_CHARS} characters")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Refusal("bad_arguments", f"{name} is not valid text") from None
    if "\0" in value:
        raise Refusal("bad_arguments", f"{name} holds a NUL character")
    return value
