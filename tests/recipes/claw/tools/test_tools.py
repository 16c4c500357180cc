"""The operations as native tools of `ReactLoop`, in a real sandbox."""

from contextlib import closing

import pytest
from orchard_cli.recipes.claw.tools import NativeTools

from orchard_cli.env.sandbox import Sandbox
from orchard_cli.errors import SandboxError
from orchard_cli.task import Task
from orchard_cli.trajectory import ToolCall

from ..world.conftest import Open, env, start  # noqa: F401 - fixtures
from ..world.made import small


def tools(sandbox: Sandbox, **changes: object) -> NativeTools:
    return NativeTools(Task("t", "claw", "", data={"world": small(**changes)}), sandbox)


def call(name: str, **arguments: object) -> ToolCall:
    return ToolCall("c", name, arguments)


def test_calls_are_answered_with_text_and_code_and_done_stops(start: Open) -> None:  # noqa: F811
    with closing(tools(start())) as bound:
        _answered(bound)
    bound.close()


def _answered(bound: NativeTools) -> None:
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


def test_only_the_worlds_tools_are_offered(start: Open) -> None:  # noqa: F811
    specs = tools(start(tools=["notes"]), tools=["notes"]).specs
    names = [spec["function"]["name"] for spec in specs]
    assert names == ["notes_list", "notes_read", "notes_write", "clock_now", "user_ask", "done"]
    assert specs[2]["function"]["parameters"]["required"] == ["title", "text"]


def test_services_that_are_gone_are_no_fault_of_the_policy(start: Open) -> None:  # noqa: F811
    sandbox = start()
    with closing(tools(sandbox)) as bound:
        bound.open()
        sandbox.exec("kill -9 -1")
        with pytest.raises(SandboxError) as caught:
            bound.call(call("mail_list"))
    assert (caught.value.fault.code, caught.value.fault.attributable) == ("world_gone", "infra")
    with pytest.raises(SandboxError):
        tools(sandbox).open()
