"""Tau-style rows (tau-bench, tau2-bench): a request and the actions of a right solution. See `calls.py`.

The user is not played: what the scenario says goes into the request at once. Rows that are judged by sentences
alone (`nl_assertions`) need a judge and are problems, not scores.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from orchard_cli.task import Task

from ..tasks.reading import FieldError, Problem
from .rows import rows
from .workplace import call_of


def read(path: str) -> Iterator[Task | Problem]:
    """Every row as a task, or what is wrong with it."""
    found = [*rows(path)]
    tools = _tools([row for _, row in found if not isinstance(row, Problem)])
    for number, row in found:
        if isinstance(row, Problem):
            yield row
            continue
        try:
            yield _task(row, number, tools)
        except FieldError as error:
            yield Problem(path, number, error.field, error.message)


def _actions(row: Mapping[str, Any]) -> list[Any]:
    criteria = row.get("evaluation_criteria")
    actions = (criteria or {}).get("actions") if isinstance(criteria, dict) else row.get("actions")
    if not isinstance(actions, list) or not actions:
        raise FieldError("evaluation_criteria.actions", "is missing: nothing to compare calls with")
    # tau-bench says `kwargs`; actions that the user makes are not the assistant's
    return [
        {"name": a.get("name"), "arguments": a.get("arguments", a.get("kwargs", {}))}
        for a in actions
        if isinstance(a, dict) and a.get("requestor", "assistant") == "assistant"
    ]


def _tools(found: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows bring no tools: those that their solutions use, with the arguments that occur."""
    known: dict[str, dict[str, Any]] = {}
    for row in found:
        try:
            actions = [call_of(a, "") for a in _actions(row)]
        except FieldError:
            continue
        for action in actions:
            known.setdefault(action["name"], {}).update(dict.fromkeys(action["arguments"], {}))
    return [
        {"type": "function", "function": {"name": n, "parameters": {"type": "object", "properties": p}}}
        for n, p in sorted(known.items())
    ]


def _task(row: Mapping[str, Any], number: int, tools: list[dict[str, Any]]) -> Task:
    calls = [call_of(a, f"evaluation_criteria.actions[{i}]") for i, a in enumerate(_actions(row))]
    if not calls:
        raise FieldError("evaluation_criteria.actions", "holds nothing that the assistant does")
    return Task(
        f"tau/{row.get('id', number)}",
        "claw",
        _said(row),
        "eval",
        "tau",
        data={"tools": tools},
        hidden={"calls": calls, "plan": [*({c["name"]: c["arguments"]} for c in calls), {"done": {"answer": "done"}}]},
    )


def _said(row: Mapping[str, Any]) -> str:
    """The ticket, or the scenario's instructions."""
    scenario = row.get("user_scenario")
    told = scenario.get("instructions") if isinstance(scenario, dict) else row.get("instruction")
    if isinstance(told, dict):
        wanted = ("reason_for_call", "known_info", "task_instructions")
        told = "\n".join(str(told[name]) for name in wanted if told.get(name))
    said = row.get("ticket") or told
    if not isinstance(said, str) or not said.strip():
        raise FieldError("user_scenario.instructions", "is missing")
    return said.strip()
