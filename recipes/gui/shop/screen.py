"""What a page looks like in words: its address, and the things on it, one a line, as `[12] button "Search"`.

The reader is lenient: brackets, colons, quotes and what follows the name may differ.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import SplitResult, parse_qsl, urlsplit

from orchard_cli.trajectory import Message

_LINE = re.compile(r"^\s*[-*•]?\s*\[(?P<id>[\w-]{1,20})\]\s*:?\s*<?(?P<role>[A-Za-z_-]+)>?\s*:?\s*(?P<rest>.*)$")
_NAME = re.compile(r"""^"((?:[^"\\]|\\.)*)"|^'((?:[^'\\]|\\.)*)'|^(\S.*?)(?:\s{2,}|$)""")
_URL = re.compile(r"https?://[^\s\"'<>)\]]+")
_HERE = re.compile(
    r"^\W*(?:current\s+)?(?:url|page|address|location)\b|\bactive\b|\bcurrent\b|\bin front\b|^\s*\*", re.IGNORECASE
)
_BELOW = re.compile(r"^\W*\d+ (?:more )?elements? below", re.IGNORECASE | re.MULTILINE)
ROLES = {
    "link": {"link", "a"},
    "button": {"button", "submit"},
    "box": {"textbox", "searchbox", "input", "spinbutton", "textfield", "password", "combobox"},
    "radio": {"radio", "radiobutton", "menuitemradio", "input"},
}


@dataclass(frozen=True)
class Thing:
    id: int | str
    role: str
    name: str
    rest: str  # value, state


@dataclass(frozen=True)
class Screen:
    """One observation. `url` is empty if it names no address."""

    url: str
    things: tuple[Thing, ...]
    more: bool = False  # it says that there is more further down

    @classmethod
    def read(cls, text: str) -> "Screen":
        return cls(_address(text), tuple(_things(text)), bool(_BELOW.search(text)))

    @property
    def place(self) -> SplitResult:
        return urlsplit(self.url)

    @property
    def words(self) -> dict[str, str]:
        return dict(parse_qsl(self.place.query))

    def find(self, kind: str, name: str, *, begins: bool = False) -> Thing | None:
        """The first thing of a kind (`ROLES`) with that name, or whose name begins so; capitals are the same."""
        wanted = name.lower()
        for thing in self.things:
            have = thing.name.lower()
            if thing.role in ROLES[kind] and (have == wanted or begins and have.startswith(wanted)):
                return thing
        return None


def screens(messages: Sequence[Message]) -> list[Screen]:
    """What the policy has seen, turn by turn: all that was said between two of its replies is one screen."""
    found, texts = [], list[str]()
    for message in messages:
        if message.role == "assistant":
            found.append(Screen.read("\n".join(texts)))
            texts = []
        elif message.role != "system":
            texts.append(message.content)
    return [*found, Screen.read("\n".join(texts))]


def _address(text: str) -> str:
    """The address of the page that is open; the last one named, lines that say `url`, `page` or `active` first."""
    named = [(line, found) for line in text.splitlines() if not _LINE.match(line) for found in _URL.findall(line)]
    here = [found for line, found in named if _HERE.search(line)]
    return (here or [found for _, found in named] or [""])[-1].rstrip(".,;")


def _things(text: str) -> Iterator[Thing]:
    for line in text.splitlines():
        if (found := _LINE.match(line)) is None:
            continue
        name = _NAME.match(found["rest"])
        said = next((g for g in name.groups() if g is not None), "") if name else ""
        rest = found["rest"][name.end() :] if name else found["rest"]
        key = int(found["id"]) if found["id"].isdigit() else found["id"]
        yield Thing(key, found["role"].lower(), " ".join(re.sub(r"\\(.)", r"\1", said).split()), rest.strip())
