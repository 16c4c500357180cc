"""The MCP server, spoken to by the official SDK's own client, both inside a sandbox."""

import json

import pytest
from orchard_cli.recipes.claw.world import launch

from orchard_cli.env.sandbox import Sandbox

from .conftest import Open

pytest.importorskip("mcp")

CLIENT = """
import asyncio, json, sys
from mcp import Client, StdioServerParameters

async def main(where):
    server = where if where.startswith("http") else StdioServerParameters(command="sh", args=["-c", where])
    async with Client(server) as client:
        listed = (await client.list_tools()).tools
        said = []
        for name, arguments in CALLS:
            result = await client.call_tool(name, arguments)
            said.append([result.is_error, result.content[0].text])
        tools = {tool.name: [tool.input_schema, tool.annotations.destructive_hint] for tool in listed}
        print(json.dumps({"tools": tools, "said": said}))

CALLS = json.loads(sys.argv[2])
asyncio.run(main(sys.argv[1]))
"""
CALLS = [
    ["mail_list", {"query": "budget"}],
    ["mail_list", {"limit": "x"}],
    ["no such\ntool", {}],
    ["todo_add", {"text": "é"}],
]
VARIABLES = " ".join(f"{name}='{value}'" for name, value in launch.variables().items())
WAIT = "for i in $(seq 300); do (exec 3<>/dev/tcp/127.0.0.1/8800) 2>/dev/null && exit; sleep 0.1; done; exit 1"


def spoken(sandbox: Sandbox, where: str) -> dict[str, object]:
    argv = ["sh", "-c", '"$CLAW_MCP_PYTHON" -c "$0" "$@"', CLIENT, where, json.dumps(CALLS)]
    result = sandbox.exec(argv, timeout_s=120)
    assert result.ok, result.stderr.decode()[-3000:]
    return json.loads(result.stdout)


def test_the_sdks_client_uses_it_over_stdio_and_http(start: Open) -> None:
    sandbox = start(mcp=True, tools=["mail", "todo"])
    # The SDK's client gives its server a bare environment, as other clients do.
    over_stdio = spoken(sandbox, f"{VARIABLES} claw-mcp")
    sandbox.exec("setsid claw-mcp --http 8800 >/tmp/log 2>&1 &")
    assert sandbox.exec(WAIT).ok
    over_http = spoken(sandbox, "http://127.0.0.1:8800/mcp")
    for heard in (over_stdio, over_http):
        tools, said = heard["tools"], heard["said"]
        assert isinstance(tools, dict) and isinstance(said, list)
        assert {"mail_send", "todo_add", "done"} <= set(tools) and "bank_transfer" not in tools
        assert tools["mail_send"][0]["required"] == ["to", "subject", "body"]
        assert (tools["mail_send"][1], tools["mail_list"][1]) == (True, False)
        assert [wrong for wrong, _ in said] == [False, True, True, False]
        assert said[0][1].startswith("m1 unread") and said[1][1] == "bad_arguments: limit must be an integer"
    audit = json.loads(launch.export(sandbox))["audit"]
    assert [entry["face"] for entry in audit] == ["mcp"] * 8
    assert [entry["code"] for entry in audit[:4]] == ["ok", "bad_arguments", "unknown_tool", "ok"]
