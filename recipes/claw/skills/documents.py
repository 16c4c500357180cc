"""The SKILL.md files: one for each service, made from the table of operations."""

from collections.abc import Mapping
from typing import Any

from ..world.service.cli import usage
from ..world.service.operations import Operation, chosen

FOLDER = "/skills"
ABOUT = {
    "mail": "Read, write, sort and delete mails.",
    "calendar": "See, plan and change events; find free time.",
    "contacts": "Look up and keep people's addresses.",
    "files": "Read, write, move and share text files.",
    "notes": "Keep notes.",
    "todo": "Keep a list of things to do.",
    "bank": "See accounts and payments; pay.",
    "expenses": "Record expenses and hand them in.",
    "shop": "Find products; order, cancel, return.",
    "web": "Search the web and read pages.",
    "clock": "Tell the date and time.",
    "user": "Ask the user.",
    "done": "End the task.",
}
RULES = """\
Every command prints its result, or a code and what is wrong; then nothing was changed. Only after `timeout` it may have
been: look before you repeat. After `rate_limited` or `unavailable` try again. Lists show ids; other commands take them.
"""


def documents(world: Mapping[str, Any]) -> dict[str, str]:
    """Path → text, for the services that a checked world offers."""
    services: dict[str, list[Operation]] = {}
    for operation in chosen(world["tools"]).values():
        services.setdefault(operation.service, []).append(operation)
    return {f"{FOLDER}/{name}/SKILL.md": _document(name, some) for name, some in services.items()}


def _document(service: str, operations: list[Operation]) -> str:
    head = f"---\nname: {service}\ndescription: {ABOUT[service]}\n---\n\n# {service}\n\n{RULES}"
    return "\n".join([head, *(f"    {usage(operation)}\n".replace("\n  ", "\n      ") for operation in operations)])
