"""The fields of a task file and what may stand in them. A wrong one is named, with the nearest right one."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from ..grade_checks import KINDS as CHECKS
from ..grade_match import OPERATORS
from ..grade_safety import RULES
from ..world.service.operations import OPERATIONS
from .fill import text
from .reading import FieldError

TABLES = (  # of the world's export
    *("mail", "event", "contact", "file", "share", "note", "todo", "account", "payment", "expense", "product"),
    *("order", "page", "question"),
)
FIELDS: dict[str, type | tuple[type, ...]] = {
    "family": str,
    "about": str,
    "tags": list,
    "easy": bool,
    "held_out": bool,
    "split": str,
    "draw": dict,
    "noise": dict,
    "world": dict,
    "say": (str, list),
    "want": list,
    "keep": list,
    "never": list,
    "allow": list,
    "plan": list,
    "slips": dict,
    "wrong": dict,
    "grader": str,
}
NEEDED = ("family", "say", "plan")
CHECK_FIELDS = {*CHECKS, "where", "count", "weight"}
RULE_FIELDS = {*RULES, "where", "to"}

Call = tuple[str, dict[str, Any]]


def check_fields(found: Mapping[str, Any]) -> None:
    """Raises `FieldError` for the first field that is unknown, missing or of a wrong type."""
    for name, value in found.items():
        if name not in FIELDS:
            raise FieldError(str(name), f"no such field{near(str(name), FIELDS)}")
        if not isinstance(value, FIELDS[name]):
            raise FieldError(name, f"{_kind(FIELDS[name])} is needed, not {value!r:.60}")
    for name in NEEDED:
        if not found.get(name):
            raise FieldError(name, "is missing")
    if not found.get("want") and not found.get("grader"):
        raise FieldError("want", "is missing")


def check_calls(calls: Any, where: str) -> list[Call]:
    """`[{mail_send: {to: …}}, …]` as (operation, arguments) pairs."""
    if not isinstance(calls, list):
        raise FieldError(where, "a list of calls is needed")
    return [_call(call, f"{where}[{i}]") for i, call in enumerate(calls)]


def _call(call: Any, where: str) -> Call:
    if isinstance(call, str):
        call = {call: {}}
    if not isinstance(call, dict) or len(call) != 1:
        raise FieldError(where, "one call is `operation: {argument: value}`")
    ((name, arguments),) = call.items()
    if name not in OPERATIONS:
        raise FieldError(where, f"no operation `{name}`{near(str(name), OPERATIONS)}")
    arguments = {} if arguments is None else arguments
    if not isinstance(arguments, dict):
        raise FieldError(f"{where}.{name}", "arguments are `name: value`")
    known = {a.name: a.required for a in OPERATIONS[name].arguments}
    for argument in arguments:
        if argument not in known:
            raise FieldError(f"{where}.{name}", f"no argument `{argument}`{near(str(argument), known)}")
    for argument, required in known.items():
        if required and argument not in arguments:
            raise FieldError(f"{where}.{name}", f"argument `{argument}` is missing")
    return name, {a.name: _typed(arguments[a.name], a.type) for a in OPERATIONS[name].arguments if a.name in arguments}


def _typed(value: Any, kind: str) -> Any:
    """A number that was drawn, as the text that the operation wants."""
    return text(value) if kind == "string" and isinstance(value, (int, float)) else value


def check_checks(checks: Sequence[Any], where: str) -> None:
    """Kinds, tables, operations and operators of `want` and `keep`."""
    for i, check in enumerate(checks):
        place = f"{where}[{i}]"
        kind = _one_of(check, CHECKS, CHECK_FIELDS, place)
        if kind in ("row", "no_row") and check[kind] not in TABLES:
            raise FieldError(f"{place}.{kind}", f"no table `{check[kind]}`{near(str(check[kind]), TABLES)}")
        if kind in ("called", "not_called"):
            _operation(check[kind], f"{place}.{kind}")
        if kind == "only":
            check_allowed(check["only"], f"{place}.only")
        if kind == "answer":
            _operators(check["answer"], f"{place}.answer")
        _where(check, place)
        if not isinstance(check.get("weight", 1), (int, float)) or check.get("weight", 1) <= 0:
            raise FieldError(f"{place}.weight", "a number above 0 is needed")


def check_allowed(entries: Any, where: str) -> None:
    if not isinstance(entries, list):
        raise FieldError(where, "a list of {op, where, count} is needed")
    for i, entry in enumerate(entries):
        if not isinstance(entry, dict) or "op" not in entry or set(entry) - {"op", "where", "count"}:
            raise FieldError(f"{where}[{i}]", "one entry is {op, where, count}")
        _operation(entry["op"], f"{where}[{i}].op")
        _where(entry, f"{where}[{i}]")


def check_rules(rules: Sequence[Any], where: str) -> None:
    for i, rule in enumerate(rules):
        place = f"{where}[{i}]"
        kind = _one_of(rule, RULES, RULE_FIELDS, place)
        for name in rule[kind] if kind == "final" else [rule[kind]] if kind in ("call", "unconfirmed") else []:
            _operation(name, f"{place}.{kind}")
        _where(rule, place)


def near(word: str, known: Any) -> str:
    found = get_close_matches(word, list(known), 1)
    return f"; did you mean `{found[0]}`?" if found else f"; there are: {', '.join(known)}"[:300]


def _one_of(entry: Any, kinds: Sequence[str], known: set[str], where: str) -> str:
    if not isinstance(entry, dict):
        raise FieldError(where, f"needs one of {', '.join(kinds)}")
    for name in entry:
        if name not in known:
            raise FieldError(f"{where}.{name}", f"no such field{near(str(name), sorted(known))}")
    found = [k for k in kinds if k in entry]
    if len(found) != 1:
        raise FieldError(where, f"needs exactly one of {', '.join(kinds)}")
    return found[0]


def _operation(name: Any, where: str) -> None:
    if name not in OPERATIONS:
        raise FieldError(where, f"no operation `{name}`{near(str(name), OPERATIONS)}")


def _where(entry: Mapping[str, Any], place: str) -> None:
    where = entry.get("where", {})
    if not isinstance(where, dict):
        raise FieldError(f"{place}.where", "is `field: value`")
    for name, value in where.items():
        _operators(value, f"{place}.where.{name}")


def _operators(value: Any, where: str) -> None:
    if isinstance(value, dict):
        for name in value:
            if name not in OPERATORS:
                raise FieldError(f"{where}.{name}", f"no comparison `{name}`{near(str(name), OPERATORS)}")


def _kind(wanted: type | tuple[type, ...]) -> str:
    names = {str: "text", list: "a list", dict: "`name: value` lines", bool: "true or false"}
    return " or ".join(names[t] for t in (wanted if isinstance(wanted, tuple) else (wanted,)))
