"""What a setting may be: the limits that `schema.setting` declares, held to before anything else is done."""

import operator
from collections.abc import Callable, Iterable
from typing import Any

from .errors import ConfigError

_TESTS: dict[str, tuple[Callable[[Any, Any], bool], str]] = {
    "least": (operator.ge, "less than"),
    "above": (operator.gt, "not more than"),
    "most": (operator.le, "more than"),
    "below": (operator.lt, "not less than"),
}


def hold(key: str, value: Any, limits: dict[str, Any]) -> None:
    """Raise `ConfigError` if `value` (of a list: an item) is beyond what `limits` allow; NaN always is."""
    for one in value if isinstance(value, Iterable) and not isinstance(value, str) else (value,):
        for name, (holds, words) in _TESTS.items():
            limit = limits.get(name)
            if limit is not None and not holds(one, limit):
                raise ConfigError(f"{key} ({one}) is {words} {limit}", hint=_range(limits))
        known = limits.get("of")
        if known and one not in known:
            raise ConfigError(f"{key} is `{one}`", hint=f"{key} is {', '.join(known[:-1])} or {known[-1]}")


def _range(limits: dict[str, Any]) -> str:
    ends = {"least": "at least", "above": "more than", "most": "at most", "below": "less than"}
    return "it must be " + " and ".join(f"{word} {limits[n]}" for n, word in ends.items() if limits.get(n) is not None)
