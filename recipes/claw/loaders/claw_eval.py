"""Claw-Eval task files (`tasks/<id>/task.yaml`), played in our world where its services are ours.

Claw-Eval's graders are Python of its own package, and most ask a model; its services are programs of its repository.
What is read here is what the file itself declares: the request, `scoring_components` and `safety_checks` of kinds
that need no judge, and fixtures of services that this world has. What cannot be read is named, never guessed.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from orchard_cli.errors import DataError
from orchard_cli.task import Task

from ..tasks.family import checked_world
from ..tasks.reading import FieldError, Problem, documents
from ..world.service.operations import OPERATIONS

SERVICES = {"gmail": "mail", "email": "mail", "mail": "mail", "calendar": "calendar", "contacts": "contacts"}
SERVICES |= {"todo": "todo", "notes": "notes", "files": "files", "web_search": "web", "web": "web"}
VERBS = {"list": "list", "search": "list", "read": "read", "get": "read", "send": "send", "create": "create"}
VERBS |= {"delete": "delete", "update": "update", "add": "add", "reply": "reply", "forward": "forward", "move": "move"}
MOST_ANSWER = 100_000  # characters; these tasks ask for reports
NEEDED = ("task_id", "prompt")


def read(path: str) -> Iterator[Task | Problem]:
    """Every task, or what is wrong with it. Raises `DataError` if there is no task file."""
    root = Path(path)
    found = sorted(root.rglob("task.yaml")) if root.is_dir() else [root]
    if not found or not found[0].is_file():
        raise DataError(f"{root}: no task.yaml", hint="tasks.path names Claw-Eval's `tasks` folder, or one task.yaml")
    for file in found:
        for number, page in documents(file):
            if isinstance(page, Problem):
                yield page
                continue
            try:
                yield _task(page, file)
            except FieldError as error:
                yield Problem(str(file), number, error.field, error.message)


def _task(page: Mapping[str, Any], file: Path) -> Task:
    for field in NEEDED:
        if not page.get(field):
            raise FieldError(field, "is missing")
    prompt = page["prompt"]
    said = prompt.get("text") if isinstance(prompt, dict) else prompt
    if not isinstance(said, str) or not said.strip():
        raise FieldError("prompt.text", "is missing")
    want, judged = _want(page.get("scoring_components") or [])
    if not want:
        raise FieldError("scoring_components", "holds no check that needs neither a judge nor Claw-Eval's own grader")
    environment = page.get("environment") or {}
    return Task(
        f"claw_eval/{page['task_id']}",
        "claw",
        said.strip(),
        "eval",
        str(page.get("category", "")),
        data={"world": checked_world(_world(page, file))},
        hidden={
            "want": want,
            "keep": [],
            "never": _never(page.get("safety_checks") or []),
            "plan": [{"done": {"answer": "done"}}],  # no solution comes with these tasks
            "wrong": {},
            "skipped": judged,
            "max_turns": environment.get("max_turns", 0),
        },
    )


def _want(components: Any) -> tuple[list[dict[str, Any]], list[str]]:
    """The checks that we can make, and the names of those that we cannot."""
    want, judged = [], []
    for i, entry in enumerate(_rows(components, "scoring_components")):
        check, name = entry.get("check") or {}, str(entry.get("name", i))
        weight = entry.get("weight", 1)
        if not isinstance(weight, (int, float)) or weight <= 0:
            raise FieldError(f"scoring_components[{i}].weight", "a number above 0 is needed")
        made = _checks(check, f"scoring_components[{i}].check")
        want += [one | {"weight": weight / len(made)} for one in made]
        judged += [] if made else [name]
    return want, judged


def _checks(check: Mapping[str, Any], where: str) -> list[dict[str, Any]]:
    """One component as checks of ours that share its weight; none if only a judge or a tool that we lack can tell."""
    kind = check.get("type")
    if kind == "tool_called":
        ours = operation(str(check.get("tool_name", "")))
        return [{"called": ours}] if ours else []
    if kind in ("keywords_present", "categories_present"):
        words = check.get("keywords", check.get("categories"))
        if not isinstance(words, list) or not words:
            raise FieldError(where, "lists no words")
        return [{"answer": {"any": [word]}, "most": MOST_ANSWER} for word in words]
    if kind == "min_length":
        return [{"answer": {"longer": int(check.get("min_length", 1))}, "most": MOST_ANSWER}]
    return []


def _never(checks: Any) -> list[dict[str, Any]]:
    rules: list[dict[str, Any]] = []
    for i, check in enumerate(_rows(checks, "safety_checks")):
        where = f"safety_checks[{i}]"
        if check.get("type") != "tool_not_called":
            raise FieldError(f"{where}.type", f"`{check.get('type')}` cannot be checked here")
        ours = operation(str(check.get("tool_name", "")))
        if not ours:
            raise FieldError(f"{where}.tool_name", f"`{check.get('tool_name')}` is no tool of this world")
        rules.append({"call": ours})
    return rules


def operation(tool: str) -> str:
    """Our operation for a tool of Claw-Eval: `gmail_send_message` → `mail_send`; empty if there is none."""
    if tool in OPERATIONS:
        return tool
    service = next((ours for theirs, ours in SERVICES.items() if tool.startswith(f"{theirs}_")), "")
    for word in tool.split("_")[1:]:
        for verb in (word, VERBS.get(word, "")):
            if f"{service}_{verb}" in OPERATIONS:
                return f"{service}_{verb}"
    return ""


def _world(page: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """From `fixtures/<service>/*.json` beside the file: lists of mails, events, contacts and todos."""
    world: dict[str, Any] = {}
    for service in _rows(page.get("services") or [], "services"):
        name = str(service.get("name", ""))
        if name not in SERVICES:
            raise FieldError("services", f"`{name}` is no service of this world; there are: {', '.join(SERVICES)}")
        for fixture in sorted(file.parent.glob(f"fixtures/{name}/*.json")):
            world |= _fixture(SERVICES[name], fixture)
    return world


def _fixture(service: str, fixture: Path) -> dict[str, Any]:
    try:
        rows = json.loads(fixture.read_text())
    except (OSError, ValueError) as error:
        raise FieldError(f"fixtures/{fixture.name}", f"cannot be read: {error}") from error
    if not isinstance(rows, list) or service not in FIXTURES:
        raise FieldError(f"fixtures/{fixture.name}", f"no list of rows that {service} can take")
    kind, columns = FIXTURES[service]
    return {kind: [_row(row, columns) for row in _rows(rows, f"fixtures/{fixture.name}")]}


def _row(row: Mapping[str, Any], columns: Mapping[str, str]) -> dict[str, Any]:
    made = {ours: row[theirs] for theirs, ours in columns.items() if row.get(theirs)}
    if "at" in made:
        made["at"] = str(made["at"])[:16]  # the owner's clock has no offset
    return made


MAIL = {"message_id": "id", "from": "from", "to": "to", "subject": "subject", "body": "body", "date": "at"}
EVENT = {"event_id": "id", "title": "title", "start_time": "start", "end_time": "end", "location": "location"}
PERSON = {"contact_id": "id", "name": "name", "email": "email", "phone": "phone", "company": "company"}
NOTE = {"note_id": "id", "title": "title", "content": "text"}
TODO_FIELDS = {"task_id": "id", "title": "text", "due_date": "due"}
FIXTURES = {
    "mail": ("mails", MAIL),
    "calendar": ("events", EVENT),
    "contacts": ("contacts", PERSON),
    "todo": ("todos", TODO_FIELDS),
    "notes": ("notes", NOTE),
}


def _rows(value: Any, where: str) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        raise FieldError(where, "is a list of `name: value` entries")
    return value
