"""Add the asked numbers with the tools of a counter."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchard_cli import schema
from orchard_cli.domain import Grade
from orchard_cli.env.sandbox import Env, Sandbox, Spec
from orchard_cli.harness.calls import CALLS
from orchard_cli.harness.formats import chosen
from orchard_cli.harness.react import ReactLoop
from orchard_cli.harness.tools import ToolResult
from orchard_cli.policy.scripted import ScriptedPolicy
from orchard_cli.task import Split, Task
from orchard_cli.trajectory import ToolCall


@dataclass
class Config(schema.Domain):
    tasks: int = 3
    """How many tasks to make."""


def tool(name: str, **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


class Counter:
    specs: tuple[dict[str, Any], ...] = (tool("add", number={"type": "integer"}), tool("done"))

    def __init__(self, sandbox: Sandbox):
        self.sandbox = sandbox

    def open(self) -> ToolResult:
        self.sandbox.write("total", b"0")
        return ToolResult()

    def call(self, call: ToolCall) -> ToolResult:
        number = call.arguments.get("number")
        if call.name != "add":
            return ToolResult(stop=True) if call.name == "done" else ToolResult("no such tool", "unknown_tool")
        if not isinstance(number, int) or abs(number) > 99:
            return ToolResult("add needs a number", "bad_arguments")
        self.sandbox.write("total", str(int(self.sandbox.read("total")) + number).encode())
        return ToolResult()

    def observe(self) -> ToolResult:
        return ToolResult(self.sandbox.read("total").decode())

    def close(self) -> None: ...


class Domain:
    name = "counter"

    def __init__(self, config: Config, tasks: schema.Tasks, harness: schema.Harness, seed: int):
        self.config, self.settings = config, harness

    def tasks(self, split: Split) -> Iterator[Task]:
        for i in range(self.config.tasks):
            yield Task(f"{split}-{i}", "counter", f"Add {i} and {i + 1}", split, data={"numbers": [i, i + 1]})

    def harness(self, task: Task) -> ReactLoop:
        prompts = Path(__file__).parent / "prompts" / self.settings.prompt
        return ReactLoop(self.settings, prompts, lambda task, sandbox: Counter(sandbox))

    def spec(self, task: Task) -> Spec:
        return Spec()

    def prepare(self, task: Task, sandbox: Sandbox) -> None: ...

    def export(self, task: Task, sandbox: Sandbox) -> str:
        return sandbox.read("total").decode()

    def grade(self, task: Task, artifact: str, env: Env) -> Grade:
        right = artifact == str(sum(task.data["numbers"]))
        return Grade(float(right), right)

    def script(self, task: Task, *, seed: int, error_rate: float) -> ScriptedPolicy:
        numbers = task.data["numbers"] if seed % 100 >= 100 * error_rate else [99]
        return self._say("script", [ToolCall(f"call_{i}", "add", {"number": n}) for i, n in enumerate(numbers)])

    def noop(self, task: Task) -> ScriptedPolicy:
        return self._say("noop", [])

    def _say(self, name: str, calls: list[ToolCall]) -> ScriptedPolicy:
        turns = [calls, [ToolCall("call_9", "done", {})]] if calls else [[ToolCall("call_9", "done", {})]]
        return ScriptedPolicy.replies(name, list(map(chosen(self.settings, ReactLoop.name, CALLS).encode, turns)))
