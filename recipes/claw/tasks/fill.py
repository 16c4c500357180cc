"""`{who.first}` in a task file becomes what was drawn. Only names, fields and numbers of lists: nothing runs."""

import re
from collections.abc import Mapping
from typing import Any

from .reading import FieldError

_SLOT = re.compile(r"\{([a-z_][a-z0-9_]*(?:\.[a-z0-9_]+)*)\}")
_WHOLE = re.compile(rf"(-?){_SLOT.pattern}")


def fill(value: Any, values: Mapping[str, Any], where: str = "") -> Any:
    """`value` with every slot filled; one slot alone keeps its type, negated after `-`."""
    if isinstance(value, str):
        whole = _WHOLE.fullmatch(value)
        if whole:
            found = _look(whole[2], values, where)
            if not whole[1]:
                return found
            if isinstance(found, (int, float)):
                return -found
        return _SLOT.sub(lambda m: text(_look(m[1], values, where)), value)
    if isinstance(value, dict):
        return {fill(k, values, where): fill(v, values, f"{where}.{k}" if where else str(k)) for k, v in value.items()}
    if isinstance(value, list):
        return [fill(v, values, f"{where}[{i}]") for i, v in enumerate(value)]
    return value


def text(value: Any) -> str:
    """As a person would write it: money with two digits."""
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def _look(path: str, values: Mapping[str, Any], where: str) -> Any:
    found: Any = values
    for part in path.split("."):
        if isinstance(found, Mapping) and part in found:
            found = found[part]
        elif isinstance(found, list) and part.isdigit() and int(part) < len(found):
            found = found[int(part)]
        else:
            raise FieldError(where, f"{{{path}}} is not drawn")
    return found
