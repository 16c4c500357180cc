"""The world's operations as the tools of an MCP server: the official SDK's client outside, its server in the sandbox.

They speak over the server's standard input and output, as people's own assistants do with theirs.
"""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from typing import Any

from orchard_cli.env.execution import Execution
from orchard_cli.env.sandbox import Sandbox
from orchard_cli.errors import SandboxError
from orchard_cli.harness.tools import ToolResult
from orchard_cli.task import Task
from orchard_cli.trajectory import ToolCall

ANSWER_S = 60.0  # for one request, the first of which waits for the server's start
LIFE_S = 24 * 3600.0
OURS = ("unavailable", "internal_error")  # codes of what the policy did not do


class McpTools:
    """A `Toolset`. Its `specs` are what the server lists, so there are none before `open`."""

    def __init__(self, task: Task, sandbox: Sandbox):
        self.specs: tuple[dict[str, Any], ...] = ()
        self._sandbox = sandbox
        self._ends = ExitStack()
        self._ask: Callable[..., Any] | None = None

    def open(self) -> ToolResult:
        """Start the server and list its tools. Raises `SandboxError`."""
        from anyio.from_thread import start_blocking_portal
        from mcp import Client

        server = self._sandbox.start("exec claw-mcp", stdin=None, timeout_s=LIFE_S)
        self._ends.callback(_cancel, server)
        try:
            portal = self._ends.enter_context(start_blocking_portal())
            client = Client(_transport(server), read_timeout_seconds=ANSWER_S, cache=None)
            spoken = self._ends.enter_context(portal.wrap_async_context_manager(client))
            self._ask = lambda name, *args: portal.call(getattr(spoken, name), *args)
            self.specs = tuple(_spec(tool) for tool in _listed(self._ask))
        except SandboxError:
            raise
        except Exception as error:  # the SDK raises what it likes, groups of exceptions too
            raise _gone(error) from error
        return ToolResult()

    def call(self, call: ToolCall) -> ToolResult:
        """Whatever is wrong with the call is a code; only a server that is gone raises, as an infrastructure fault."""
        if self._ask is None:
            raise SandboxError("the tools are not open", code="client.not_open", attributable="client")
        try:
            json.dumps([call.name, call.arguments], ensure_ascii=False, allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError):
            return ToolResult("bad_arguments: the arguments are no JSON object", "bad_arguments")
        try:
            said = self._ask("call_tool", call.name, call.arguments)
        except Exception as error:
            raise _gone(error) from error
        text = "".join(part.text for part in said.content)
        code = text.partition(":")[0] if said.is_error else "ok"
        if code in OURS:
            raise SandboxError(f"a service failed: {text}", code="world_failed")
        return ToolResult(text, code, stop=call.name == "done" and code == "ok")

    def observe(self) -> ToolResult:
        return ToolResult()

    def close(self) -> None:
        self._ask = None
        with suppress(Exception):  # a server that is gone was told when it was asked
            self._ends.close()


def _listed(ask: Callable[..., Any]) -> list[Any]:
    """Of all pages."""
    page = ask("list_tools")
    found = list(page.tools)
    while page.next_cursor:
        page = ask("list_tools", page.next_cursor)
        found += page.tools
    return found


def _spec(tool: Any) -> dict[str, Any]:
    about = {"name": tool.name, "description": tool.description or "", "parameters": tool.input_schema}
    return {"type": "function", "function": about}


def _cancel(server: Execution) -> None:
    with suppress(SandboxError):
        server.cancel()


def _gone(error: Exception) -> SandboxError:
    return SandboxError(f"the MCP server does not answer: {type(error).__name__}: {error}", code="world_gone")


@asynccontextmanager
async def _transport(server: Execution) -> AsyncIterator[tuple[Any, Any]]:
    """The SDK's two streams of messages over a command that runs in a sandbox, one message a line."""
    import anyio
    from anyio import to_thread

    heard, hearing = anyio.create_memory_object_stream[Any](64)
    saying, said = anyio.create_memory_object_stream[Any](0)

    async def speak() -> None:
        async with said:
            async for message in said:
                line = message.message.model_dump_json(by_alias=True, exclude_unset=True) + "\n"
                await to_thread.run_sync(server.write, line.encode())

    async with anyio.create_task_group() as group:
        group.start_soon(to_thread.run_sync, _hear, server, heard)
        group.start_soon(speak)
        try:
            yield hearing, saying
        finally:
            saying.close()
            hearing.close()
            with anyio.CancelScope(shield=True):  # its end is what ends the thread that listens
                await to_thread.run_sync(_cancel, server)
            group.cancel_scope.cancel()


def _hear(server: Execution, heard: Any) -> None:
    """In a thread: what the server says, until it ends."""
    from anyio import BrokenResourceError, ClosedResourceError, from_thread
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    rest = b""
    with suppress(SandboxError, BrokenResourceError, ClosedResourceError):
        for event in server.events():
            *lines, rest = (rest + event.data).split(b"\n") if event.type == "out" else (rest,)
            for line in lines:
                try:
                    message: Any = SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
                except ValueError as error:
                    message = error
                from_thread.run(heard.send, message)
    with suppress(RuntimeError):
        from_thread.run(heard.aclose)
