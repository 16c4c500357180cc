"""`workplace_assistant` of NeMo-Gym: rows of a JSONL file. See `calls.py` for how they are judged."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from orchard_cli.task import Task

from ..tasks.reading import FieldError, Problem
from .rows import rows


def read(path: str) -> Iterator[Task | Problem]:
    """Every row as a task, or what is wrong with it."""
    for number, row in rows(path):
        if isinstance(row, Problem):
            yield row
            continue
        try:
            yield _task(row, number)
        except FieldError as error:
            yield Problem(path, number, error.field, error.message)


def _task(row: Mapping[str, Any], number: int) -> Task:
    asked = row.get("responses_create_params")
    if not isinstance(asked, dict):
        raise FieldError("responses_create_params", "is missing")
    if not isinstance(row.get("ground_truth"), list):
        raise FieldError("ground_truth", "is missing")
    calls = [call_of(call, f"ground_truth[{i}]") for i, call in enumerate(row["ground_truth"])]
    tools = [_tool(tool, f"tools[{i}]") for i, tool in enumerate(asked.get("tools") or [])]
    if not tools:
        raise FieldError("responses_create_params.tools", "is missing")
    return Task(
        f"workplace/{row.get('id', number)}",
        "claw",
        _said(asked.get("input")),
        "eval",
        str(row.get("category", "")),
        data={"tools": tools},
        hidden={"calls": calls, "plan": [*({c["name"]: c["arguments"]} for c in calls), {"done": {"answer": "done"}}]},
    )


def _said(messages: Any) -> str:
    if isinstance(messages, str):
        return messages
    parts = [str(m.get("content", "")) for m in messages or () if isinstance(m, dict)]
    if not any(parts):
        raise FieldError("responses_create_params.input", "holds no message")
    return "\n\n".join(parts)


def _tool(tool: Any, where: str) -> dict[str, Any]:
    """From the Responses dialect (flat) to the one of chat endpoints."""
    if not isinstance(tool, dict) or not isinstance(tool.get("name"), str):
        raise FieldError(where, "has no name")
    function = {k: tool[k] for k in ("name", "description", "parameters") if k in tool}
    return {"type": "function", "function": {"parameters": {"type": "object", "properties": {}}} | function}


def call_of(call: Any, where: str) -> dict[str, Any]:
    """Arguments are an object, or one as JSON text."""
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        raise FieldError(where, "has no name")
    arguments = call.get("arguments", {})
    try:
        arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError as error:
        raise FieldError(f"{where}.arguments", f"not JSON: {error}") from error
    if not isinstance(arguments, dict):
        raise FieldError(f"{where}.arguments", "is no object")
    return {"name": call["name"], "arguments": arguments}
