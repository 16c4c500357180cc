"""The OpenAPI document says what each field and each parameter means."""

import json
import re

from orchard_cli.env.service.app import OPERATIONS
from orchard_cli.env.service.openapi import document
from pages import DOCS

DOCUMENT = json.loads(json.dumps(document(OPERATIONS)))  # as it is sent


def test_every_field_has_a_meaning() -> None:
    components = DOCUMENT["components"]["schemas"]
    silent = [
        f"{name}.{field}"
        for name, component in components.items()
        for field, schema in component["properties"].items()
        if not schema.get("description")
    ]
    assert silent == []
    assert components["ExecBody"]["properties"]["no_output_timeout_s"]["description"].startswith("It is ended")


def test_every_query_parameter_has_a_meaning() -> None:
    operations = [operation for path in DOCUMENT["paths"].values() for operation in path.values()]
    asked = [parameter for operation in operations for parameter in operation["parameters"]]
    assert all(parameter.get("description") for parameter in asked if parameter["in"] == "query")
    assert all(operation["summary"] for operation in operations)


def test_what_the_pages_name_exists() -> None:
    """Fields of an exec in operate.md's table, and routes of the reference API."""
    page = (DOCS / "operate.md").read_text()
    table = page.partition("| field of an exec | |")[2].partition("\n\n")[0]
    named = {word for row in table.splitlines()[2:] for word in re.findall(r"`([a-z0-9_]+)`", row.split("|")[1])}
    assert named <= set(DOCUMENT["components"]["schemas"]["ExecBody"]["properties"]) and "spool_bytes" in named
    for route in ("wait", "heartbeat", "exec", "apply_patch", "files", "files/list"):
        assert f"/sandboxes/{{id}}/{route}" in DOCUMENT["paths"]
        assert f"/{route}`" in page, route
