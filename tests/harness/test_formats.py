"""One action a turn, in either form; everything else is a format error that says what was found."""

import pytest

from orchard_cli.harness.formats import FORMATS, FormatError
from orchard_cli.trajectory import Message, ToolCall

COMMANDS = ["ls", "echo 'a b' > x.txt", "cat <<'EOF' > f\nline\nEOF", "sed -i '3s/</<=/' m.py"]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_encoded_is_parsed_again(name: str, command: str) -> None:
    form = FORMATS[name]
    assert form.parse(form.encode(command, "I look first.")) == command


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("no command at all", "found 0 commands"),
        ("```bash\nls\n```\n```bash\npwd\n```", "found 2 commands"),
        ("```python\nprint()\n```", "found 0 commands"),
        ("```bash\nls", "found 0 commands"),
        ("```bash\nls \0\n```", "the command holds a NUL byte"),
        ("```bash\nls \ud800\n```", "the command is not valid text"),
    ],
)
def test_a_fenced_reply_needs_exactly_one_command(text: str, found: str) -> None:
    with pytest.raises(FormatError, match=found):
        FORMATS["fence"].parse(Message("assistant", text))


@pytest.mark.parametrize(
    "call",
    [
        ToolCall("1", "python", {"command": "ls"}),
        ToolCall("1", "bash", {"cmd": "ls"}),
        ToolCall("1", "bash", {"command": ["ls"]}),
        ToolCall("1", "bash", {"command": "ls", "timeout": 3}),
    ],
)
def test_a_wrong_tool_call_is_a_format_error(call: ToolCall) -> None:
    with pytest.raises(FormatError):
        FORMATS["tool"].parse(Message("assistant", "", tool_calls=(call,)))


def test_the_v2_fence_of_mini_swe_agent_is_understood() -> None:
    assert FORMATS["fence"].parse(Message("assistant", "Hm.\n```mswea_bash_command\nls -l\n```")) == "ls -l"


def test_an_observation_answers_its_tool_call() -> None:
    said = FORMATS["tool"].encode("ls")
    assert FORMATS["tool"].observe(said, "x").tool_call_id == said.tool_calls[0].id
    assert FORMATS["fence"].observe(said, "x").role == "user"
