"""The MCP face: the world's operations as tools of an MCP server, over stdio or streamable HTTP.

The one file here that needs more than the standard library: the official SDK (`orchard-cli[claw]`). It runs only when
this face is asked for (`claw-mcp`, or `claw-mcp --http PORT`) and passes every call on to the REST face.
"""

import functools
import os
import sys
from typing import Any

import anyio
import anyio.to_thread
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server

from .cli import ask, route
from .operations import OPERATIONS


def server(port: int) -> Server:
    """A server that offers what the world at `port` does."""

    async def call(path: str, arguments: dict[str, Any]) -> Any:
        asked = functools.partial(ask, port, path, arguments, "mcp")
        return await anyio.to_thread.run_sync(asked)

    async def list_tools(
        ctx: ServerRequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        names = [tool["function"]["name"] for tool in await call("/_tools", {})]
        return types.ListToolsResult(tools=[_tool(name) for name in names])

    async def call_tool(ctx: ServerRequestContext, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            answer = await call(route(params.name), params.arguments or {})
        except (OSError, ValueError):
            answer = {"code": "unavailable", "text": "unavailable: the services do not answer"}
        text = types.TextContent(type="text", text=answer["text"])
        return types.CallToolResult(content=[text], is_error=answer["code"] != "ok")

    return Server("claw", on_list_tools=list_tools, on_call_tool=call_tool)


def _tool(name: str) -> types.Tool:
    operation = OPERATIONS[name]
    hints = types.ToolAnnotations(read_only_hint=not operation.writes, destructive_hint=operation.irreversible)
    return types.Tool(name=name, description=operation.described(), input_schema=operation.schema(), annotations=hints)


async def over_stdio(served: Server) -> None:
    async with stdio_server() as (reading, writing):
        await served.run(reading, writing, served.create_initialization_options())


def over_http(served: Server, port: int) -> None:
    """Streamable HTTP at `/mcp` on a loopback port."""
    import uvicorn

    uvicorn.run(served.streamable_http_app(), host="127.0.0.1", port=port, log_level="warning")


def main() -> None:
    served = server(int(os.environ.get("CLAW_PORT", "8700")))
    if sys.argv[1:2] == ["--http"]:
        over_http(served, int(sys.argv[2]))
    else:
        anyio.run(over_stdio, served)
