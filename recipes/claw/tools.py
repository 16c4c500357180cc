"""The world's operations as native tools of one attempt."""

import json

from orchard_cli.env.sandbox import Sandbox
from orchard_cli.errors import SandboxError
from orchard_cli.harness.tools import ToolResult
from orchard_cli.task import Task
from orchard_cli.trajectory import ToolCall

from .world.link import Link
from .world.service.cli import route
from .world.service.operations import chosen


class NativeTools:
    """A `Toolset` over one connection. The task's `data["world"]` is a checked world, started by `launch.start`."""

    def __init__(self, task: Task, sandbox: Sandbox):
        self.specs = tuple(operation.tool() for operation in chosen(task.data["world"]["tools"]).values())
        self._sandbox = sandbox
        self._link: Link | None = None

    def open(self) -> ToolResult:
        self._link = Link(self._sandbox)
        return ToolResult()

    def call(self, call: ToolCall) -> ToolResult:
        """Whatever is wrong with the call is a code; only services that are gone raise, as an infrastructure fault."""
        if self._link is None:
            raise SandboxError("the tools are not open", code="client.not_open", attributable="client")
        try:
            json.dumps(call.arguments)
        except (TypeError, ValueError, RecursionError):
            return ToolResult("bad_arguments: the arguments are no JSON object", "bad_arguments")
        said = self._link.ask(route(call.name), call.arguments, {"X-Face": "native"})
        answer = json.loads(said.text)
        if answer["code"] == "internal_error":
            raise SandboxError(f"a service failed: {answer['text']}", code="world_failed")
        return ToolResult(answer["text"], answer["code"], stop=call.name == "done" and answer["code"] == "ok")

    def observe(self) -> ToolResult:
        return ToolResult()

    def close(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None
