"""The operations as tools of `ReactLoop`, native or through MCP, in a real sandbox."""

import json
from contextlib import closing

import pytest
from orchard_cli.recipes.claw.mcp_tools import McpTools
from orchard_cli.recipes.claw.tools import NativeTools
from orchard_cli.recipes.claw.world import launch

from orchard_cli.env.sandbox import Sandbox
from orchard_cli.errors import SandboxError
from orchard_cli.task import Task
from orchard_cli.trajectory import ToolCall

from ..world.conftest import Open, env, start  # noqa: F401 - fixtures
from ..world.made import small

Tools = type[NativeTools] | type[McpTools]
FACE: dict[Tools, str] = {NativeTools: "native", McpTools: "mcp"}
BOTH = pytest.mark.parametrize("kind", [NativeTools, McpTools])


def tools(sandbox: Sandbox, kind: Tools = NativeTools, **changes: object) -> NativeTools | McpTools:
    return kind(Task("t", "claw", "", data={"world": small(**changes)}), sandbox)


def call(name: str, **arguments: object) -> ToolCall:
    return ToolCall("c", name, arguments)


@BOTH
def test_calls_are_answered_with_text_and_code_and_done_stops(start: Open, kind: Tools) -> None:  # noqa: F811
    sandbox = start(mcp=kind is McpTools)
    with closing(tools(sandbox, kind)) as bound:
        _answered(bound)
    bound.close()
    assert {entry["face"] for entry in json.loads(launch.export(sandbox))["audit"]} == {FACE[kind]}
    assert sandbox.exec("pgrep -f claw-mcp").exit_code == 1  # nobody is left


def _answered(bound: NativeTools | McpTools) -> None:
    assert bound.open().text == ""
    assert bound.call(call("mail_list")).text.startswith("m1 unread")
    wrong = bound.call(call("mail_read", id=7))
    assert (wrong.code, wrong.text, wrong.stop) == ("bad_arguments", "bad_arguments: id must be a string", False)
    for name in ("mail list", "../_export", "_export", "mail\r\nX: y", "é" * 500, "", "_health"):
        assert bound.call(call(name)).code == "unknown_tool", name
    assert bound.call(call("mail_read", id=float("nan"))).code == "bad_arguments"
    assert bound.call(call("mail_read", id="\ud800")).code == "bad_arguments"
    assert bound.call(call("mail_read", id={1, 2})).code == "bad_arguments"
    assert not bound.call(call("done")).stop
    assert bound.call(call("done", answer="x")).stop


@BOTH
def test_only_the_worlds_tools_are_offered(start: Open, kind: Tools) -> None:  # noqa: F811
    with closing(tools(start(mcp=kind is McpTools, tools=["notes"]), kind, tools=["notes"])) as bound:
        bound.open()
        specs = bound.specs
    names = [spec["function"]["name"] for spec in specs]
    assert names == ["notes_list", "notes_read", "notes_write", "clock_now", "user_ask", "done"]
    assert specs[2]["function"]["parameters"]["required"] == ["title", "text"]


@BOTH
def test_services_that_are_gone_are_no_fault_of_the_policy(start: Open, kind: Tools) -> None:  # noqa: F811
    sandbox = start(mcp=kind is McpTools)
    with closing(tools(sandbox, kind)) as bound:
        bound.open()
        sandbox.exec("kill -9 -1")
        with pytest.raises(SandboxError) as caught:
            bound.call(call("mail_list"))
    assert (caught.value.fault.code, caught.value.fault.attributable) == ("world_gone", "infra")
    with closing(tools(sandbox, kind)) as again, pytest.raises(SandboxError):
        again.open()
        again.call(call("mail_list"))  # the port of a process that is just ending may still take a connection
