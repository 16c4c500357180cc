"""Images in what an endpoint is sent: the newest of them as `data:` URLs, a word in place of each older one."""

from base64 import b64encode
from collections.abc import Iterator, Sequence
from typing import Any

from ..errors import PolicyError
from ..trajectory import Blobs, Message
from .wire import to_wire

LEFT_OUT = "[an older image is left out]"
_SHOWN = "What the tools showed:"  # endpoints take no images in a tool's answer
_KINDS = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpeg", b"GIF8": "gif"}


class Pictures:
    """The images of a run's conversations, of which an endpoint is sent the newest `keep`.

    Only what is sent changes, never the record. Since an older image makes room for a word, a prompt does not extend
    the one before it: an endpoint's prefix cache starts again there, and token ids that it gives do not continue
    those before, so they are not kept. A policy of our own keeps its prompts as they are.
    """

    def __init__(self, blobs: Blobs | None, keep: int):
        self.blobs = blobs
        self.keep = keep

    def wire(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """The messages as chat completions writes them. Raises `PolicyError` for what is no picture, `DataError` for
        a blob that is missing or damaged.
        """
        older = max(0, sum(len(m.images) for m in messages) - self.keep)
        sent: list[dict[str, Any]] = []
        held: list[dict[str, Any]] = []  # from tools that answered one turn
        for message in messages:
            if held and message.role != "tool":
                sent.append({"role": "user", "content": [_text(_SHOWN), *held]})
                held = []
            gone = min(older, len(message.images))
            older -= gone
            wire = to_wire(message)
            wire["content"] = "\n".join(part for part in (message.content, *[LEFT_OUT] * gone) if part)
            pictures = list(self._parts(message.images[gone:]))
            if pictures and message.role == "tool":
                held += pictures
            elif pictures:
                wire["content"] = [*([_text(wire["content"])] if wire["content"] else []), *pictures]
            sent.append(wire)
        return [*sent, {"role": "user", "content": [_text(_SHOWN), *held]}] if held else sent

    def _parts(self, images: Sequence[str]) -> Iterator[dict[str, Any]]:
        for sha in images:
            if self.blobs is None:
                raise _unusable("this policy was opened without the run's blobs", "no_blobs")
            data = self.blobs.get(sha)
            url = f"data:image/{_kind(sha, data)};base64,{b64encode(data).decode()}"
            yield {"type": "image_url", "image_url": {"url": url}}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _kind(sha: str, data: bytes) -> str:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp"
    for start, kind in _KINDS.items():
        if data.startswith(start):
            return kind
    raise _unusable(f"blob {sha} is no PNG, JPEG, GIF or WebP picture", "no_picture")


def _unusable(message: str, code: str) -> PolicyError:
    return PolicyError(message, code=code, attributable="client", effect="none", retry="never")
