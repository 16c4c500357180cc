"""Calls as commands, SKILL.md files, and the harness that is built on them."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from orchard_cli.recipes.claw.harness import SkillsLoop, harness, has_shell
from orchard_cli.recipes.claw.skills.commands import call_of, command
from orchard_cli.recipes.claw.skills.documents import documents
from orchard_cli.recipes.claw.skills.speech import CommandSpeech
from orchard_cli.recipes.claw.world import launch
from orchard_cli.recipes.claw.world.service.operations import OPERATIONS

from orchard_cli import schema
from orchard_cli.errors import ConfigError
from orchard_cli.harness.calls import CALLS
from orchard_cli.harness.formats import FORMATS
from orchard_cli.policy.policy import Sampling
from orchard_cli.policy.scripted import ScriptedPolicy
from orchard_cli.task import Task
from orchard_cli.trajectory import ToolCall

from ..world.conftest import Open, env, start  # noqa: F401 - fixtures
from ..world.made import small

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
PROMPTS = Path(__file__).parents[3] / "fourth" / "echo" / "prompts"


@st.composite
def calls(draw: st.DrawFn) -> ToolCall:
    operation = OPERATIONS[draw(st.sampled_from(sorted(OPERATIONS)))]
    values: dict[str, Any] = {
        "string": TEXT,
        "integer": st.integers(-99, 99),
        "number": st.floats(-1e6, 1e6),
        "boolean": st.booleans(),
    }
    some = [a for a in operation.arguments if a.required or draw(st.booleans())]
    return ToolCall("call_0", operation.name, {a.name: draw(values[a.type]) for a in some})


@settings(deadline=None)
@given(calls())
def test_a_call_comes_back_from_its_command(call: ToolCall) -> None:
    assert call_of(command(call)) == call


def test_commands_read_as_one_would_write_them() -> None:
    assert command(ToolCall("c", "mail_read", {"id": "m1"})) == "claw mail read m1"
    call = ToolCall("c", "mail_reply", {"id": "m1", "body": "it's $5", "cc": "a@b.example"})
    assert command(call) == "claw mail reply m1 'it'\"'\"'s $5' --cc=a@b.example"


def test_bash_sees_the_words_that_were_meant() -> None:
    call = ToolCall("c", "notes_write", {"title": "--id", "text": "a\n$(id) `id` \\ 'x' \"y\" é"})
    shown = subprocess.run(["bash", "-c", f"claw() {{ printf '%s\\0' \"$@\"; }}; {command(call)}"], capture_output=True)
    assert shown.stdout.decode().split("\0")[2:4] == ["--title=--id", call.arguments["text"]]


@pytest.mark.parametrize(
    "text", ["ls", "claw", "claw mail", "claw mail list; ls", "claw mail read 'm1", "claw mail read m1 | wc"]
)
def test_what_is_not_one_claw_command_is_no_call(text: str) -> None:
    assert call_of(text) is None


def test_skills_describe_what_the_world_offers() -> None:
    some = documents(small(tools=["mail", "calendar_list"]))
    assert set(some) == {f"/skills/{name}/SKILL.md" for name in ("mail", "calendar", "clock", "user", "done")}
    assert some["/skills/mail/SKILL.md"].startswith("---\nname: mail\ndescription: ")
    assert "claw mail send TO SUBJECT BODY [--cc=STRING] [--attach=STRING]" in some["/skills/mail/SKILL.md"]
    assert "claw calendar create" not in some["/skills/calendar/SKILL.md"]
    assert len(documents(small())) == 13


DEEDS = [
    ToolCall("c", "mail_list", {"query": "budget"}),
    ToolCall("c", "mail_reply", {"id": "m1", "body": "It's done:\n$HOME é"}),
    ToolCall("c", "bank_transfer", {"account": "main", "payee": "Landlord", "amount": 50.5}),
    ToolCall("c", "mail_read", {"id": "m99"}),
    ToolCall("c", "done", {"answer": "all well"}),
]


def test_all_harnesses_leave_the_same_export(start: Open) -> None:  # noqa: F811
    exports = []
    for kind in ("react", "mcp", "skills"):
        config = schema.Harness(kind=kind, format="fence" if kind == "skills" else "calls")
        speech = CommandSpeech(FORMATS["fence"])
        say = speech.say if kind == "skills" else lambda call: CALLS["calls"].encode([call])
        sandbox = start(mcp=kind == "mcp")
        policy = ScriptedPolicy.replies("script", [say(call) for call in DEEDS])
        task = Task("t", "claw", "Do it.", data={"world": small()})
        ended = harness(config, PROMPTS).run(task, sandbox, policy, Sampling())
        assert (ended.stop, ended.fault) == ("submitted", None)
        exports.append(json.loads(launch.export(sandbox, shell=has_shell(config))))
        if kind == "skills":
            turns = speech.turns(ended.messages)
            assert [turn.call.arguments for turn in turns] == [call.arguments for call in DEEDS]
            assert "not_found: no mail m99" in turns[3].result
            assert sandbox.list("/skills/mail") == ("SKILL.md",)
    faces = [{entry.pop("face") for entry in export["audit"]} for export in exports]
    assert faces == [{"native"}, {"mcp"}, {"cli"}]
    assert exports[0] == exports[1] == exports[2] and exports[0]["answer"] == "all well"


def test_an_agent_that_only_says_that_it_is_done_has_not_answered(start: Open) -> None:  # noqa: F811
    sandbox = start()
    policy = ScriptedPolicy.replies("script", [FORMATS["fence"].encode("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")])
    loop = SkillsLoop(schema.Harness(kind="skills"))
    ended = loop.run(Task("t", "claw", "", data={"world": small()}), sandbox, policy, Sampling())
    assert ended.stop == "submitted" and json.loads(launch.export(sandbox, shell=True))["done"] is False


def test_a_harness_that_there_is_not_is_named() -> None:
    with pytest.raises(ConfigError, match=r"harness.kind is `mini`; there are: react, mcp, skills"):
        harness(schema.Harness(kind="mini"), PROMPTS)
