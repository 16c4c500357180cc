"""Several calls in a reply: what is written is read again, and no line from a model can do harm."""

import threading
import warnings
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchard_cli.harness import literals
from orchard_cli.harness.calls import CALLS, MOST_CALLS, signature
from orchard_cli.harness.formats import FormatError
from orchard_cli.harness.tools import ToolResult
from orchard_cli.trajectory import Message, ToolCall

LINES, NATIVE = CALLS["calls"], CALLS["tool"]
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
NAME = st.from_regex(r"\A[A-Za-z_][A-Za-z0-9_]{0,8}\Z")
NUMBER = st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)
VALUE = st.recursive(
    st.none() | st.booleans() | NUMBER | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
MADE = st.lists(st.tuples(NAME, st.dictionaries(NAME, VALUE, max_size=3)), min_size=1, max_size=4)


def say(text: str) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, call.arguments) for call in LINES.parse(Message("assistant", text))]


@given(MADE, TEXT)
def test_what_is_written_is_read_again_whatever_was_thought(made: list[tuple[str, dict[str, Any]]], why: str) -> None:
    calls = tuple(ToolCall(f"call_{at}", name, arguments) for at, (name, arguments) in enumerate(made))
    for form in CALLS.values():
        assert form.parse(form.encode(calls, why.replace("<tool_call>", ""))) == calls


def test_the_thought_stands_in_other_lines() -> None:
    text = 'I open it (the red one), then write.\nclick(id=12)\n```\nwrite(id=3, text="a\\nb")\n```\nf(x) = 2'
    assert say(text) == [("click", {"id": 12}), ("write", {"id": 3, "text": "a\nb"})]


@pytest.mark.parametrize(
    ("line", "arguments"),
    [
        ("f()", {}),
        ("f( a = 1 , b=-2.5e3, )  \r", {"a": 1, "b": -2500.0}),
        ("f(a='it\\'s', b=\"\\u00e4\\ud83d\\ude00\\x41\\/\")", {"a": "it's", "b": "ä😀A/"}),
        (r'f(a="C:\dir \d+")', {"a": r"C:\dir \d+"}),
        ("f(a=true, b=None, c=[1, (2,), {'k': null}])", {"a": True, "b": None, "c": [1, [2], {"k": None}]}),
        ("f(a=[], b={})", {"a": [], "b": {}}),
    ],
)
def test_values_are_written_as_python_or_as_json_does(line: str, arguments: dict[str, Any]) -> None:
    assert say(line) == [("f", arguments)]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("I would rather talk.", "found no tool call"),
        ("", "found no tool call"),
        ("click(12)", "a name should stand where `12"),
        ("click(id=12", "should stand where `the end of the line` is"),
        ("click(id=)", "a value should stand"),
        ("click(id=12) # there", "nothing more should stand where `# there`|cannot be read"),
        ('click(id="12)', "cannot be read"),
        ("click(id=__import__('os'))", "a value should stand where `__import__"),
        ("click(id=1+1)", "cannot be read"),
        ("click(id=1, id=2)", "`id` is given twice"),
        ("click(id=1e999)", "too large"),
        ("click(id=" + "1" * 5000 + ")", "too long"),
        ("click(id=" + "[" * 50 + "]" * 50 + ")", "nested too deeply"),
        ('click(id="\0")', "NUL"),
        ('click(id="\\x00")', "NUL"),
        ('click(id="\ud800")', "not valid text"),
        ('click(id="\\ud800")', "not valid text"),
        ("x" * literals.MOST_CHARS + "()", "too long"),
        ("back()\n" * (MOST_CALLS + 1), "more than 32"),
    ],
)
def test_what_cannot_be_read_is_a_format_error_that_says_why(text: str, told: str) -> None:
    with pytest.raises(FormatError, match=told):
        say(text)


@given(st.text() | st.from_regex(r"\A[a-z]\(a=[-+\[\](){}\"'\\,:=.e0-9a-z \n]{0,40}\)?\Z"))
def test_no_text_can_do_more_than_be_refused(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            say(text)
        except FormatError as error:
            str(error).encode()


@pytest.mark.parametrize("unit", ["[", "(", "{'a':", "-", "1", "1.", "1e", '"', "\\", "a=", " ", ")", ") ", "{", "'\\"])
def test_long_lines_are_read_in_a_small_thread(unit: str) -> None:
    line = "f(a=" + (unit * literals.MOST_CHARS)[: literals.MOST_CHARS - 8] + ")"
    found: list[str] = []

    def read() -> None:
        try:
            found.append(str(say(line)))
        except FormatError as error:
            found.append(str(error))

    before = threading.stack_size(256 * 1024)
    try:
        thread = threading.Thread(target=read)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert found and len(found[0]) < 200


def test_native_calls_are_read_as_they_are_and_answered_one_by_one() -> None:
    calls = (ToolCall("a", "click", {"id": 1}), ToolCall("b", "nonsense", {"x": [1]}))
    said = Message("assistant", "", tool_calls=calls)
    assert NATIVE.parse(said) == calls
    shown = NATIVE.answers(said, [ToolResult("one"), ToolResult("two", images=("f" * 64,))])
    assert [(m.role, m.content, m.tool_call_id, m.images) for m in shown] == [
        ("tool", "one", "a", ()),
        ("tool", "two", "b", ("f" * 64,)),
    ]
    assert [m.tool_call_id for m in NATIVE.answers(said, [ToolResult("refused")])] == ["a", "b"]


@pytest.mark.parametrize(
    "said",
    [
        Message("assistant", "talk"),
        Message("assistant", "<tool_call>click {</tool_call>", tool_calls=(ToolCall("a", "back", {}),)),
        Message("assistant", "", tool_calls=(ToolCall("a", "write", {"text": ["\0"]}),)),
        Message("assistant", "", tool_calls=(ToolCall("a", "write", {"\ud800": 1}),)),
    ],
)
def test_a_native_reply_that_no_tool_can_be_given_is_a_format_error(said: Message) -> None:
    with pytest.raises(FormatError):
        NATIVE.parse(said)


def test_tools_are_told_in_words_only_where_the_format_is_text() -> None:
    properties = {"id": {"type": "integer"}, "button": {"type": "string"}}
    parameters = {"type": "object", "properties": properties, "required": ["id"]}
    spec = {"type": "function", "function": {"name": "click", "description": "Click.", "parameters": parameters}}
    assert LINES.described([spec]) == signature(spec) == "click(id: integer, button?: string)  Click."
    assert (LINES.offered([spec]), NATIVE.offered([spec]), NATIVE.described([spec])) == ((), (spec,), "")
