"""The loop over a toolset: calls in order, what the policy is shown, what ends an attempt, that tools are let go."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from orchard_cli import schema
from orchard_cli.env import open_env
from orchard_cli.env.sandbox import Env, Sandbox, Spec
from orchard_cli.errors import ConfigError, SandboxError
from orchard_cli.harness.calls import CALLS
from orchard_cli.harness.harness import Transcript
from orchard_cli.harness.loop import MiniLoop
from orchard_cli.harness.react import ReactLoop
from orchard_cli.harness.tools import ToolResult
from orchard_cli.outcome import Outcome
from orchard_cli.policy.policy import Sampling
from orchard_cli.policy.scripted import ScriptedPolicy
from orchard_cli.task import Task
from orchard_cli.trajectory import Message, ToolCall, Trajectory
from orchard_cli.trajectory.checks import check

TASK = Task("t", "notes", "Note b, then a")
PICTURE = "ab" * 32


def tool(name: str, **properties: str) -> dict[str, Any]:
    kinds = {key: {"type": kind} for key, kind in properties.items()}
    parameters = {"type": "object", "properties": kinds, "required": list(kinds)}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


@dataclass
class Notes:
    """Lines in a file of the sandbox; a page of all of them after each turn."""

    sandbox: Sandbox
    log: list[str] = field(default_factory=list)
    specs: tuple[dict[str, Any], ...] = (tool("note", text="string"), tool("count"), tool("done"), tool("crash"))

    def open(self) -> ToolResult:
        self.log.append("open")
        self.sandbox.exec("touch notes")
        return ToolResult("an empty page", images=(PICTURE,))

    def call(self, call: ToolCall) -> ToolResult:
        self.log.append(call.name)
        if call.name == "note":
            if not isinstance(call.arguments.get("text"), str):
                return ToolResult("note needs a text", "bad_arguments")
            self.sandbox.exec("cat >> notes; echo >> notes", stdin=call.arguments["text"].encode())
            return ToolResult()
        if call.name == "count":
            return ToolResult(self.sandbox.exec("wc -l < notes").stdout.decode().strip())
        if call.name == "crash":
            raise SandboxError("the world is gone", code="infra.gone")
        return ToolResult(stop=True) if call.name == "done" else ToolResult("there is no such tool", "unknown_tool")

    def observe(self) -> ToolResult:
        self.log.append("observe")
        return ToolResult("page: " + self.sandbox.read("notes").decode().replace("\n", ";"), images=(PICTURE,))

    def close(self) -> None:
        self.log.append("close")


@pytest.fixture(scope="module")
def env() -> Iterator[Env]:
    opened = open_env(schema.Env(isolation="process"))
    yield opened
    opened.close()


@pytest.fixture
def notes(env: Env) -> Iterator[Notes]:
    with env.open(Spec()) as opened:
        yield Notes(opened)


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    for name, text in {
        "system": "{{ tools }}",
        "instance": "{{ task.prompt }}",
        "format_error": "no: {{ error }}",
    }.items():
        (tmp_path / f"{name}.md").write_text(text)
    return tmp_path


def say(*calls: tuple[str, dict[str, Any]], format: str = "calls") -> Message:
    made = [ToolCall(f"id{at}", name, arguments) for at, (name, arguments) in enumerate(calls)]
    return CALLS[format].encode(made, "Well.")


def run(
    notes: Notes,
    prompts: Path,
    replies: Sequence[Message],
    *,
    resume: Transcript | None = None,
    turns: int = 0,
    **settings: Any,
) -> Transcript:
    config = schema.Harness(**{"kind": "react", "format": "calls", **settings})
    loop = ReactLoop(config, prompts, lambda task, sandbox: notes)
    return loop.run(
        TASK, notes.sandbox, ScriptedPolicy.replies("script", replies), Sampling(turns=turns), resume=resume
    )


def sound(done: Transcript) -> bool:
    made = Trajectory(
        "t",
        "t",
        "notes",
        "script",
        "react",
        done.messages,
        done.steps,
        Outcome.UNSOLVED,
        done.stop,
        usage=done.usage,
        reward=0.0,
        tools=done.tools,
    )
    return not list(check(made))


B, A, COUNT, DONE = ("note", {"text": "b"}), ("note", {"text": "a\nc"}), ("count", {}), ("done", {})


def test_the_calls_of_a_turn_are_made_in_order_and_seen_in_one_message(notes: Notes, prompts: Path) -> None:
    done = run(notes, prompts, [say(B, A, COUNT), say(DONE)])
    assert (done.stop, len(done.steps), done.fault) == ("submitted", 2, None)
    assert notes.log == ["open", "note", "note", "count", "observe", "done", "close"]
    system, first, _, seen, _ = done.messages
    assert system.content == "note(text: string)\ncount()\ndone()\ncrash()"
    assert (first.content, first.images) == ("Note b, then a\n\nan empty page", (PICTURE,))
    assert (seen.role, seen.content, seen.images) == ("user", "3\n\npage: b;a;c;", (PICTURE,))
    assert done.steps[0].action == 'note(text="b")\nnote(text="a\\nc")\ncount()'
    assert done.steps[0].executed and done.steps[0].executed.codes == ("ok", "ok", "ok")
    assert (done.steps[0].observation, done.steps[1].observation) == (3, -1)
    assert sound(done)


def test_native_calls_are_answered_one_by_one_and_the_page_follows_the_last(notes: Notes, prompts: Path) -> None:
    done = run(notes, prompts, [say(B, COUNT, format="tool"), say(DONE, format="tool")], format="tool")
    assert done.stop == "submitted" and done.tools == notes.specs
    assert [m.role for m in done.messages] == ["user", "assistant", "tool", "tool", "assistant"]  # no tools in words
    told = [(m.tool_call_id, m.content, m.images) for m in done.messages[2:4]]
    assert told == [("id0", "[ok]", ()), ("id1", "1\n\npage: b;", (PICTURE,))]
    assert done.steps[0].observation == 3 and sound(done)


def test_what_follows_a_call_that_ends_the_attempt_is_not_made(notes: Notes, prompts: Path) -> None:
    done = run(notes, prompts, [say(B, DONE, A)])
    assert notes.log == ["open", "note", "done", "close"]
    assert done.stop == "submitted" and done.steps[0].action == 'note(text="b")\ndone()'


def test_a_tool_used_wrongly_answers_and_is_no_format_error(notes: Notes, prompts: Path) -> None:
    wrong = say(("fly", {}), ("note", {"text": 3}))
    done = run(notes, prompts, [wrong, wrong, say(DONE)], format_errors=1)
    assert done.stop == "submitted" and done.fault is None
    executed = done.steps[0].executed
    assert executed and (executed.codes, executed.reason) == (("unknown_tool", "bad_arguments"), "unknown_tool")
    assert done.messages[3].content == "there is no such tool\nnote needs a text\n\npage: "


@pytest.mark.parametrize("format", CALLS)
def test_replies_without_a_call_are_answered_and_end_it_when_they_repeat(
    notes: Notes, prompts: Path, format: str
) -> None:
    talk = Message("assistant", "I am done, I think.")
    done = run(notes, prompts, [talk, say(B, format=format), talk, talk], format_errors=2, format=format)
    assert (done.stop, len(done.steps)) == ("format_errors", 4)
    answers = [m.content for m in done.messages if m.content.startswith("no:")]
    assert answers == ["no: found no tool call"] * 2
    assert notes.log[-1] == "close" and sound(done)


def test_limits_end_the_attempt(notes: Notes, prompts: Path) -> None:
    assert run(notes, prompts, [say(COUNT)], max_steps=3).stop == "step_limit"
    fewer = run(notes, prompts, [say(COUNT)], max_steps=3, turns=2)
    assert (fewer.stop, len(fewer.steps)) == ("step_limit", 2)
    assert len(run(notes, prompts, [say(COUNT)], max_steps=3, turns=9).steps) == 3
    assert run(notes, prompts, [say(COUNT)], max_time_s=0.0).stop == "time_limit"
    assert run(notes, prompts, [say(COUNT)], max_time_s=0.0, late="excluded").stop == "over_time"
    assert notes.log[-1] == "close"


def test_a_fault_of_the_world_ends_it_with_what_was_said_so_far(notes: Notes, prompts: Path) -> None:
    done = run(notes, prompts, [say(B), say(("crash", {}))])
    assert done.stop == "error" and done.fault and done.fault.code == "infra.gone"
    assert len(done.messages) == 5 and len(done.steps) == 1 and notes.log[-1] == "close"


def test_a_toolset_that_breaks_is_a_fault_too(notes: Notes, prompts: Path) -> None:
    notes.observe = lambda: 1 / 0  # type: ignore[assignment, method-assign, return-value]
    done = run(notes, prompts, [say(B)])
    assert done.stop == "error" and done.fault and "ZeroDivisionError" in done.fault.message
    assert notes.log[-1] == "close" and done.fault.attributable == "unknown"


def test_long_results_are_cut_to_head_and_tail_and_made_valid_text(notes: Notes, prompts: Path) -> None:
    done = run(notes, prompts, [say(("note", {"text": "x" * 500})), say(DONE)], observation_chars=40)
    assert "[467 characters cut]" in done.messages[3].content and len(done.messages[3].content) < 80
    notes.open = lambda: ToolResult("\ud800")  # type: ignore[method-assign]
    assert run(notes, prompts, [say(DONE)]).messages[1].content.endswith("\n\n?")


def test_a_transcript_is_continued(notes: Notes, prompts: Path) -> None:
    first = run(notes, prompts, [say(B)], max_steps=1)
    done = run(notes, prompts, [say(A), say(COUNT), say(DONE)], resume=first)
    assert done.stop == "submitted" and len(done.steps) == 3
    assert done.messages[: len(first.messages)] == first.messages
    assert done.messages[5].content.startswith("1\n")
    assert run(notes, prompts, [say(B)], resume=first, max_steps=1).messages == first.messages


def test_loops_refuse_the_settings_of_others_with_a_way_out(notes: Notes, prompts: Path) -> None:
    with pytest.raises(ConfigError, match="format is `fence`") as wrong:
        run(notes, prompts, [], format="fence")
    assert wrong.value.hint == "harness.format is calls or tool"
    with pytest.raises(ConfigError, match="these tasks need `react`") as kind:
        run(notes, prompts, [], kind="mini")
    assert kind.value.hint == "harness=react"
    with pytest.raises(ConfigError, match="format is `calls`") as mini:
        MiniLoop(schema.Harness(format="calls"), prompts)
    assert mini.value.hint == "harness.format is fence or tool"
