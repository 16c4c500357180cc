"""Claw-Eval: tasks of its repository, played against its own services and judged by its own graders.

`tasks.path` names the repository, its `tasks` folder, or one task's folder there. The services (`mock_services`) run
in the attempt's sandbox, the grader (`tasks/<id>/grader.py`, with the package in `src`) in one of its own. Tasks that
need more than that are named with what they need: people who answer back, the open web, pictures, files of a machine.
"""

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from orchard_cli.errors import DataError
from orchard_cli.task import Task

from ..tasks.reading import FieldError, Problem, documents

PARTS = ("mock_services", "src/claw_eval", "tasks")
NEEDED = ("task_id", "prompt", "tools", "services")
SNAPSHOTS = ("env_snapshot_files", "env_snapshot_commands", "local_grader_files", "sandbox_grader_files")
ONLINE = ("web_real", "web_real_injection")
FIRST_PORT, LAST_PORT = 1024, 65535


def read(path: str) -> Iterator[Task | Problem]:
    """Every task, or what is wrong with it. Raises `DataError` if this is no checkout of Claw-Eval."""
    place = Path(path).resolve()
    root = next((up for up in (place, *place.parents) if all((up / part).is_dir() for part in PARTS)), None)
    if root is None:
        raise DataError(
            f"{path} is not in a copy of Claw-Eval's repository",
            hint=f"tasks.path names its folder, with {', '.join(PARTS)} in it, or one of its tasks",
        )
    below = root / "tasks" if place == root else place
    files = sorted(below.rglob("task.yaml")) if below.is_dir() else [below]
    if not files or not files[0].is_file():
        raise DataError(f"{path}: no task.yaml", hint="tasks.path names Claw-Eval's repository")
    for file in files:
        for number, page in documents(file):
            if isinstance(page, Problem):
                yield page
                continue
            try:
                yield _task(page, file, root)
            except FieldError as error:
                yield Problem(str(file), number, error.field, error.message)


def _task(page: Mapping[str, Any], file: Path, root: Path) -> Task:
    for field in NEEDED:
        if not page.get(field):
            raise FieldError(field, "is missing")
    said = page["prompt"].get("text") if isinstance(page["prompt"], dict) else None
    if not isinstance(said, str) or not said.strip():
        raise FieldError("prompt.text", "is missing")
    _playable(page)
    services = [_service(row, f"services[{i}]") for i, row in enumerate(_rows(page["services"], "services"))]
    tools, ends = _tools(page, {service["port"] for service in services})
    if not (file.parent / "grader.py").is_file():
        raise FieldError("grader.py", "is missing beside the task")
    folder = str(file.parent.relative_to(root))
    return Task(
        f"claw_eval/{page['task_id']}",
        "claw",
        said.strip(),
        "eval",
        str(page.get("category", "")),
        data={"services": services, "specs": tools, "ends": ends, "root": str(root), "folder": folder},
    )


def _playable(page: Mapping[str, Any]) -> None:
    if (page.get("user_agent") or {}).get("enabled"):
        raise FieldError("user_agent", "somebody who answers back is not played here")
    if page["prompt"].get("attachments"):
        raise FieldError("prompt.attachments", "pictures and films are not shown here")
    for field in SNAPSHOTS:
        if page.get(field):
            raise FieldError(field, "files of the agent's machine are not graded here")


def _service(row: Mapping[str, Any], where: str) -> dict[str, Any]:
    name = str(row.get("name", ""))
    if name in ONLINE:
        raise FieldError(where, f"`{name}` asks the open web")
    port = row.get("port")
    if not isinstance(port, int) or not FIRST_PORT <= port <= LAST_PORT:
        raise FieldError(f"{where}.port", "a port is needed")
    command = shlex.split(str(row.get("command", "")))
    if command[:1] not in (["python"], ["python3"]):
        raise FieldError(f"{where}.command", "is not a Python program")
    health = _end(row.get("health_check"), str(row.get("health_check_method", "POST")), f"{where}.health_check")
    audit = str(row.get("reset_endpoint") or "").removesuffix("/reset") + "/audit"
    return {
        "name": name,
        "command": command[1:],
        "port": port,
        "health": health,
        "audit": _end(audit, "GET", f"{where}.reset_endpoint"),
        "ready_s": float(row.get("ready_timeout", 10)),
        "env": {str(key): str(value) for key, value in (row.get("env") or {}).items()},
    }


def _tools(page: Mapping[str, Any], ports: set[int]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """(function tools, tool → [method, port, path])."""
    ends = {}
    for i, row in enumerate(_rows(page.get("tool_endpoints") or [], "tool_endpoints")):
        where = f"tool_endpoints[{i}].url"
        ends[str(row.get("tool_name"))] = made = _end(row.get("url"), str(row.get("method", "POST")), where)
        if made[1] not in ports:
            raise FieldError(where, f"no service of the task is at port {made[1]}")
    tools = []
    for i, row in enumerate(_rows(page["tools"], "tools")):
        name, schema = str(row.get("name", "")), row.get("input_schema")
        if name not in ends:
            raise FieldError(f"tools[{i}].name", f"`{name}` is a tool of the agent's machine, not of a service")
        if not isinstance(schema, dict):
            raise FieldError(f"tools[{i}].input_schema", "is missing")
        about = {"name": name, "description": str(row.get("description", "")), "parameters": schema}
        tools.append({"type": "function", "function": about})
    return tools, ends


def _end(url: Any, method: str, where: str) -> list[Any]:
    """[method, port, path] of a service at the sandbox's own loopback."""
    parts = urlsplit(str(url))
    if parts.scheme != "http" or parts.hostname not in ("localhost", "127.0.0.1") or not parts.port:
        raise FieldError(where, f"`{url}` is not http://localhost:PORT/…")
    return [method.upper(), parts.port, parts.path or "/"]


def _rows(value: Any, where: str) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        raise FieldError(where, "is a list of `name: value` entries")
    return value
