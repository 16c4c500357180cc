"""What an endpoint is sent where messages have images: the newest as `data:` URLs, a word for each older one."""

from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from orchard_cli.errors import DataError, PolicyError
from orchard_cli.policy.pictures import LEFT_OUT, Pictures
from orchard_cli.policy.wire import to_wire
from orchard_cli.trajectory import Blobs, Message, ToolCall

PNG, JPEG, WEBP = b"\x89PNG\r\n\x1a\n1", b"\xff\xd8\xff2", b"RIFF1234WEBP3"


@pytest.fixture
def blobs(tmp_path: Path) -> Blobs:
    return Blobs(tmp_path)


def shown(content: Any) -> list[Any]:
    """Texts as they are, pictures as (media type, bytes)."""
    if isinstance(content, str):
        return [content]
    parts: list[Any] = []
    for part in content:
        if part["type"] == "text":
            parts.append(part["text"])
        else:
            kind, _, data = part["image_url"]["url"].partition(";base64,")
            parts.append((kind, b64decode(data)))
    return parts


def test_the_newest_pictures_are_sent_and_older_ones_named(blobs: Blobs) -> None:
    first, second, third = (blobs.put(data) for data in (PNG, JPEG, WEBP))
    messages = [
        Message("user", "page", images=(first, second)),
        Message("assistant", "click(id=1)"),
        Message("user", images=(third,)),
    ]
    sent = Pictures(blobs, 2).wire(messages)
    assert [shown(m["content"]) for m in sent] == [
        [f"page\n{LEFT_OUT}", ("data:image/jpeg", JPEG)],
        ["click(id=1)"],
        [("data:image/webp", WEBP)],
    ]
    assert [shown(m["content"]) for m in Pictures(None, 0).wire(messages)][2] == [LEFT_OUT]
    assert messages[0].images == (first, second)  # the record is as it was


def test_pictures_of_tools_follow_all_answers_of_a_turn(blobs: Blobs) -> None:
    sha = blobs.put(PNG)
    calls = (ToolCall("a", "look", {}), ToolCall("b", "look", {}))
    messages = [
        Message("user", "go"),
        Message("assistant", tool_calls=calls),
        Message("tool", "one", tool_call_id="a", images=(sha,)),
        Message("tool", "two", tool_call_id="b", images=(sha,)),
    ]
    for conversation in (messages, [*messages, Message("assistant", "well")]):
        sent = Pictures(blobs, 3).wire(conversation)
        assert [m["role"] for m in sent][:5] == ["user", "assistant", "tool", "tool", "user"]
        assert [m["content"] for m in sent[2:4]] == ["one", "two"]
        assert shown(sent[4]["content"])[1:] == [("data:image/png", PNG)] * 2


def test_without_pictures_nothing_changes() -> None:
    messages = [Message("system", "s"), Message("user", ""), Message("assistant", "a", "thought")]
    assert Pictures(None, 3).wire(messages) == [to_wire(m) for m in messages]


def test_what_cannot_be_sent_stops_with_a_reason(blobs: Blobs) -> None:
    text = Message("user", "x", images=(blobs.put(b"no picture"),))
    for pictures, code in ((Pictures(blobs, 1), "no_picture"), (Pictures(None, 1), "no_blobs")):
        with pytest.raises(PolicyError) as caught:
            pictures.wire([text])
        assert (caught.value.fault.code, caught.value.fault.retry) == (code, "never")
    with pytest.raises(DataError, match="is missing"):
        Pictures(blobs, 1).wire([Message("user", "x", images=("0" * 64,))])
