import pytest

from orchard_cli.policy.reply_text import parse, write
from orchard_cli.trajectory import Message, ToolCall

CALL = '<tool_call>\n{"name": "bash", "arguments": {"command": "ls"}}\n</tool_call>'


def test_plain_text_is_kept_to_the_letter() -> None:
    assert parse("  a\n```bash\nls\n```\n") == Message("assistant", "  a\n```bash\nls\n```\n")


@pytest.mark.parametrize("opening", ["<think>\n", ""])
def test_thinking_is_taken_out_whether_or_not_its_opening_was_sampled(opening: str) -> None:
    assert parse(f"{opening}first\n</think>\n\nthen") == Message("assistant", "then", "first")


def test_thinking_that_never_ends_stays_text() -> None:
    assert parse("<think>\nfirst") == Message("assistant", "<think>\nfirst")


def test_calls_are_numbered_after_those_before() -> None:
    message = parse(f"<think>\na\n</think>\n\nDo it.\n{CALL}\n{CALL}", tools=True, first_call=3)
    call = ToolCall("call_3", "bash", {"command": "ls"})
    assert message == Message("assistant", "Do it.", "a", (call, ToolCall("call_4", "bash", {"command": "ls"})))


@pytest.mark.parametrize(
    "broken",
    [
        '<tool_call>\n{"name": "bash", "arguments": {"command": "l\n</tool_call>',
        '<tool_call>{"name": "bash", "arguments": "ls"}</tool_call>',
        '<tool_call>{"arguments": {}}</tool_call>',
        "<tool_call>[]</tool_call>",
        "<tool_call>" + "[" * 100_000 + "</tool_call>",
        '<tool_call>\n{"name": "bash"',
        f"{CALL}\n<tool_call>nonsense</tool_call>",
    ],
)
def test_a_broken_call_stays_in_the_text(broken: str) -> None:
    assert parse(broken, tools=True) == Message("assistant", broken)


def test_without_tools_calls_are_text() -> None:
    assert parse(CALL) == Message("assistant", CALL)


@pytest.mark.parametrize("content", ["", "Do it."])
@pytest.mark.parametrize("reasoning", ["", "I see."])
@pytest.mark.parametrize("calls", [(), (ToolCall("call_0", "bash", {"command": "echo 'é' \"x\"\n"}),)])
def test_reading_undoes_writing(content: str, reasoning: str, calls: tuple[ToolCall, ...]) -> None:
    message = Message("assistant", content, reasoning, calls)
    assert parse(write(message), tools=True) == message
