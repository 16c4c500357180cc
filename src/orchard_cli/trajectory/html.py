"""A trajectory as one self-contained page: what was said, done and seen, pictures with the clicks on them, the verdict.

Everything in a record may be hostile: all text is escaped and has its invisible characters written out, pictures are
raster images by their first bytes, and the page forbids itself scripts and anything from outside.
"""

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2

from ..errors import DataError
from .pointing import Mark, marks
from .render import Block, blocks, printable
from .types import Step, Trajectory

_KINDS = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpeg", b"GIF8": "gif"}
_DEEPEST = 8
Get = Callable[[str], bytes]


@dataclass(frozen=True)
class Picture:
    """`url` is a `data:` address, or empty where there is nothing to show, for the reason in `missing`."""

    name: str
    url: str
    missing: str
    marks: Sequence[Mark] = ()


@dataclass(frozen=True)
class Part:
    """A block of the text, with the pictures that its message carries."""

    block: Block
    pictures: Sequence[Picture]


def html(trajectory: Trajectory, get: Get | None = None, *, chars: int = 200_000) -> str:
    """The whole attempt as a page. get: the bytes of a blob, as `Blobs.get`; without it pictures are only named.

    chars: longer messages are cut in the middle, saying so.
    """
    t = trajectory
    return _template().render(
        title=f"{_word(t.task_id)} · {t.outcome.value}",
        outcome=t.outcome.value,
        reward=None if t.reward is None else f"{t.reward:g}",
        verdicts=list(verdicts(t.grade)),
        grade=[*_rows(t.grade)],
        steps=[_row(number, step) for number, step in enumerate(t.steps, 1)],
        parts=list(_parts(t, get, chars)),
    )


@cache
def _template() -> jinja2.Template:
    source = files(__package__).joinpath("templates/trajectory.html").read_text("utf-8")
    kinds = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=True, keep_trailing_newline=True)
    return kinds.from_string(source)


def verdicts(grade: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """What judges said: any part of a grade that has `judge` and `success`."""
    for part in (grade, *grade.values()):
        if isinstance(part, Mapping) and "judge" in part and isinstance(part.get("success"), bool):
            said = "success" if part["success"] else "no success"
            yield {
                "judge": _word(str(part["judge"])),
                "said": said,
                "thought": printable(str(part.get("thought", ""))),
            }


def _parts(t: Trajectory, get: Get | None, chars: int) -> Iterator[Part]:
    pointed = marks(t.messages, t.steps)
    for block in blocks(t, chars=chars):
        images = t.messages[block.message].images if block.message >= 0 else ()
        last = len(images) - 1
        drawn = pointed.get(block.message, [])
        yield Part(block, [_picture(sha, get, drawn if at == last else ()) for at, sha in enumerate(images)])


def _picture(sha: str, get: Get | None, drawn: Sequence[Mark]) -> Picture:
    name = _word(sha[:12])
    if get is None:
        return Picture(name, "", "the pictures of this run are not at hand")
    try:
        data = get(sha)
    except DataError as error:
        return Picture(name, "", printable(str(error)))
    kind = next((kind for start, kind in _KINDS.items() if data.startswith(start)), "")
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        kind = "webp"
    if not kind:
        return Picture(name, "", "this is no PNG, JPEG, GIF or WebP picture")
    return Picture(name, f"data:image/{kind};base64,{b64encode(data).decode()}", "", drawn)


def _row(number: int, step: Step) -> dict[str, str]:
    """One line of the table of steps."""
    done = step.executed
    how = "" if done is None else f"exit {done.exit_code}" if done.exit_code is not None else _word(done.reason)
    return {
        "number": str(number),
        "action": printable(step.action) or "no action",
        "how": how,
        "tokens": str(step.span[1] - step.span[0]) if step.span else "",
        "finish": _word(step.finish),
        "wall": f"{step.wall_s:.2f}",
    }


def _rows(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """(dotted name, text) of every leaf."""
    if isinstance(value, Mapping) and value and depth < _DEEPEST:
        for key, inner in value.items():
            yield from _rows(inner, f"{path}.{key}" if path else str(key), depth + 1)
    elif path:
        yield _word(path), printable(str(value))


def _word(text: str) -> str:
    return printable(text, lines=False)
