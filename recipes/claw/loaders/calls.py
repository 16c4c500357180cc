"""Tasks that are judged by the calls they ask for: NeMo-Gym's `workplace_assistant` and tau-style rows.

These rows name tools and the calls of a right solution, but their databases are not part of them. Calls are recorded,
nothing is looked up, and the effects asked for are compared with the wanted ones: stricter than replaying both
against a database where two ways lead to one state, blind where a value had to be looked up first.
"""

import json
import threading
from pathlib import Path
from typing import Any

from orchard_cli import schema
from orchard_cli.domain import Grade
from orchard_cli.env.sandbox import Env, Sandbox, Spec
from orchard_cli.errors import GradeError
from orchard_cli.harness.calls import CALLS
from orchard_cli.harness.formats import chosen
from orchard_cli.harness.react import ReactLoop
from orchard_cli.harness.tools import ToolResult
from orchard_cli.policy.scripted import ScriptedPolicy
from orchard_cli.task import Task
from orchard_cli.trajectory import ToolCall

from .. import teacher
from ..speech import ToolSpeech

PROMPTS = Path(__file__).parents[1] / "prompts"
LOOKS = ("get", "search", "find", "list", "read", "lookup", "count", "total", "average", "check", "view", "calculate")
EXACT = ("status", "list_name", "board")  # compared letter by letter, as the benchmark does
DONE: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "done",
        "description": "End the task with an answer to the user.",
        "parameters": {
            "type": "object",
            "properties": {"answer": {"type": "string"}},
            "required": ["answer"],
            "additionalProperties": False,
        },
    },
}


def effects(calls: list[dict[str, Any]]) -> list[str]:
    """The calls that change something, in one spelling, sorted."""
    found = [c for c in calls if c["name"] != "done" and not set(c["name"].split("_")) & set(LOOKS)]
    return sorted(json.dumps([c["name"], _plain(c["arguments"])], sort_keys=True) for c in found)


def _plain(arguments: dict[str, Any]) -> dict[str, str]:
    return {k: str(v) if k in EXACT else " ".join(str(v).casefold().split()) for k, v in arguments.items() if v != ""}


class RecordedTools:
    """Says that each known call was made, and keeps it."""

    def __init__(self, task: Task, made: list[dict[str, Any]]):
        self.specs = (*task.data["tools"], DONE)
        self._known = {spec["function"]["name"]: spec["function"]["parameters"] for spec in self.specs}
        self._made = made

    def open(self) -> ToolResult:
        return ToolResult()

    def call(self, call: ToolCall) -> ToolResult:
        if call.name not in self._known:
            return ToolResult(f"unknown_tool: no tool {call.name[:60]}", "unknown_tool")
        parameters = self._known[call.name]
        missing = [n for n in parameters.get("required") or () if n not in call.arguments]
        alien = [n for n in call.arguments if n not in (parameters.get("properties") or {})]
        if missing or alien:
            return ToolResult(f"bad_arguments: {', '.join([*missing, *alien])[:200]}", "bad_arguments")
        self._made.append({"name": call.name, "arguments": call.arguments})
        return ToolResult("recorded", stop=call.name == "done")

    def observe(self) -> ToolResult:
        return ToolResult()

    def close(self) -> None: ...


class Calls:
    """Thread-safe."""

    def __init__(self, settings: schema.Harness):
        self._settings = settings
        self._lock = threading.Lock()
        self._made: dict[str, list[dict[str, Any]]] = {}

    def harness(self, task: Task) -> ReactLoop:
        return ReactLoop(self._settings, PROMPTS / self._settings.prompt, self._tools)

    def _tools(self, task: Task, sandbox: Sandbox) -> RecordedTools:
        with self._lock:
            made = self._made[sandbox.id] = []
        return RecordedTools(task, made)

    def spec(self, task: Task) -> Spec:
        return Spec()

    def prepare(self, task: Task, sandbox: Sandbox) -> None: ...

    def export(self, task: Task, sandbox: Sandbox) -> str:
        with self._lock:
            return json.dumps(self._made.pop(sandbox.id, []))

    def grade(self, task: Task, artifact: str, env: Env) -> Grade:
        try:
            made = effects(json.loads(artifact))
        except (ValueError, TypeError, KeyError) as error:
            raise GradeError(f"{task.id}: the calls cannot be read: {error}", code="export") from error
        wanted = effects(task.hidden["calls"])
        right = made == wanted and bool(json.loads(artifact)[:-1] or not wanted)
        return Grade(float(right), right, {"made": made[:20], "wanted": len(wanted)})

    def script(self, task: Task, *, seed: int, error_rate: float) -> ScriptedPolicy:
        return teacher.script(task, seed=seed, error_rate=error_rate, speech=self._speech())

    def noop(self, task: Task) -> ScriptedPolicy:
        return teacher.noop(self._speech())

    def wrong(self, task: Task) -> list[ScriptedPolicy]:
        return teacher.wrong(task, self._speech())

    def _speech(self) -> ToolSpeech:
        return ToolSpeech(chosen(self._settings, ReactLoop.name, CALLS))
