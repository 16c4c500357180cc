"""One trajectory as one line of JSON that is sure to read back."""

import math
from typing import Any

import msgspec

from ..errors import RunError
from .scan import decode
from .types import Trajectory

_ENCODER = msgspec.json.Encoder()
_DEEPEST = 64
_INT_BITS = 4096


def encode(trajectory: Trajectory) -> bytes:
    """The line, without its end. Raises `RunError` if the record would not read back.

    JSON values that a hostile reply can hold but JSON cannot (lone surrogates, endless integers, bottomless
    nesting) are replaced by U+FFFD or text, so that they cannot stop a run. NaN inside `grade`, `env` or tool
    arguments becomes null; in the record's own numbers it is an error.
    """
    line, fault = _try(trajectory)
    if fault:
        line, fault = _try(_storable(trajectory))
    if not fault and trajectory.reward is not None and not math.isfinite(trajectory.reward):
        fault = f"reward: {trajectory.reward} is not a finite number"
    if fault:
        raise RunError(
            f"trajectory {trajectory.id!r} cannot be stored: {fault}",
            hint="every number of a record must be finite; see what produced this one",
        )
    return line


def _try(trajectory: Trajectory) -> tuple[bytes, str]:
    """The line and an empty string, or no line and why."""
    try:
        line = _ENCODER.encode(trajectory)
    except (ValueError, RecursionError, OverflowError, TypeError) as error:
        return b"", str(error)
    back = decode(line)
    if isinstance(back, Trajectory):
        return line, ""
    _, field, _, message = back
    return b"", f"{field}: {message}"


def _storable(value: Any, depth: int = 0) -> Any:
    """The same JSON value, with what JSON cannot hold replaced."""
    if depth > _DEEPEST:
        return "[nested too deep]"
    if isinstance(value, msgspec.Struct):
        fields = {name: _storable(getattr(value, name), depth + 1) for name in value.__struct_fields__}
        return type(value)(**fields)
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, int) and value.bit_length() > _INT_BITS:
        return "[integer too large]"
    if isinstance(value, dict):
        return {_storable(key): _storable(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_storable(item, depth + 1) for item in value]
    return value
