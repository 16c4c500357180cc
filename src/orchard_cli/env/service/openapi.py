"""The OpenAPI document, made from the operations themselves."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from ... import __version__
from .bodies import Problem
from .call import Operation
from .fields import MEANINGS

PARAMETERS = {
    "wait": "Seconds to wait at most, up to 60",
    "after": "Only what comes after this",
    "limit": "At most so many, up to 1000",
    "label": "key=value; may be given several times",
    "path": "In the sandbox; relative to its work directory",
    "mode": "Octal permissions",
    "tenant": "Only of this tenant",
    "close": "1: no more input will come",
    "stream": "out or err; out by default",
    "number": "Of the signal; 15 by default",
    "rows": "Lines of the terminal",
    "cols": "Columns of the terminal",
}


def document(operations: Sequence[Operation]) -> dict[str, Any]:
    """OpenAPI 3.1; every operation may also answer with a problem (RFC 9457)."""
    kinds = {kind for op in operations for kind in (op.body, op.answer) if kind not in (None, bytes)} | {Problem}
    ordered = sorted(kinds, key=lambda kind: kind.__name__)
    schemas, components = msgspec.json.schema_components(ordered, ref_template="#/components/schemas/{name}")
    for name, component in components.items():
        _explain(component, MEANINGS.get(name, {}))
    named = dict(zip(ordered, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for op in operations:
        paths.setdefault(op.path, {})[op.method.lower()] = _operation(op, named)
    return {
        "openapi": "3.1.0",
        "info": {"title": "orchard env", "version": __version__, "description": "Sandboxes for agents."},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            },
        },
    }


def _explain(component: dict[str, Any], meanings: dict[str, str]) -> None:
    for field, schema in component.get("properties", {}).items():
        if field in meanings:
            schema["description"] = meanings[field]


def _operation(op: Operation, schemas: dict[Any, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "summary": op.summary,
        "operationId": re.sub(r"\W+", "_", op.name.lower()).strip("_"),
        "parameters": _parameters(op),
        "responses": {
            str(op.status): _content("as asked", op.media, schemas.get(op.answer)),
            "default": _content("a problem", "application/problem+json", schemas[Problem]),
        },
    }
    if op.body is not None:
        schema = schemas.get(op.body, {"type": "string", "format": "binary"})
        described["requestBody"] = {"content": {op.takes: {"schema": schema}}}
    if op.scope:
        described["security"] = [{"bearer": []}, {"key": []}]
        described["x-scope"] = op.scope
    return described


def _parameters(op: Operation) -> list[dict[str, Any]]:
    found = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", op.path)
    ]
    for name in op.query:
        found.append({"name": name, "in": "query", "description": PARAMETERS[name], "schema": {"type": "string"}})
    if op.method == "POST":
        said = "Same key and request: same answer, done once. Same key, other request: 409"
        key = {"name": "Idempotency-Key", "in": "header", "description": said, "schema": {"type": "string"}}
        found.append(key)
    return found


def _content(said: str, media: str, schema: Any) -> dict[str, Any]:
    if schema is None:
        return {"description": said}
    return {"description": said, "content": {media: {"schema": schema}}}
