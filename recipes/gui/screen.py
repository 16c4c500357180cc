"""What a policy was shown, read back: the goal, and the things on the page, one a line."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from orchard_cli.trajectory import Message

_LINE = re.compile(r'^\[(\d+)\] (\w+)(?: (?!")([\w#-]+))?(?: "(.*?)")?((?: .*)?)$')
_GOAL = re.compile(r"^Goal: (.*)$", re.MULTILINE)
_AT = re.compile(r" at (-?\d+),(-?\d+) size (\d+)x(\d+)")
_VALUE = re.compile(r' value="([^"]*)"')
_OPTIONS = re.compile(r' options="([^"]*)"')


@dataclass(frozen=True)
class Thing:
    """One line. x, y: its middle in thousandths of the viewport, where it is told (-1 elsewhere)."""

    id: int
    role: str
    tone: str
    name: str
    rest: str

    @cached_property
    def place(self) -> tuple[int, int, int, int]:
        """x, y in thousandths, width, height in pixels."""
        found = _AT.search(self.rest)
        return tuple(map(int, found.groups())) if found else (-1, -1, 0, 0)  # type: ignore[return-value]

    @property
    def value(self) -> str:
        found = _VALUE.search(self.rest)
        return found[1] if found else ""

    @property
    def options(self) -> list[str]:
        found = _OPTIONS.search(self.rest)
        return found[1].split("|") if found else []

    def has(self, word: str) -> bool:
        """A state: checked, selected, expanded, collapsed, disabled, focused, readonly."""
        return word in re.sub(r'"[^"]*"', "", self.rest).split()


@dataclass(frozen=True)
class Screen:
    text: str

    @cached_property
    def things(self) -> tuple[Thing, ...]:
        found = (_LINE.match(line) for line in self.text.splitlines())
        return tuple(Thing(int(f[1]), f[2], f[3] or "", f[4] or "", f[5] or "") for f in found if f)

    def all(self, *roles: str) -> list[Thing]:
        return [thing for thing in self.things if thing.role in roles]

    def find(self, *roles: str, name: str = "", that: Callable[[Thing], bool] = lambda _: True) -> Thing | None:
        """The first thing of these roles (any, if none is given) with this name, capitals being the same."""
        for thing in self.things:
            named = not name or thing.name.lower() == name.lower()
            if (not roles or thing.role in roles) and named and that(thing):
                return thing
        return None


def screens(messages: Sequence[Message]) -> list[Screen]:
    """What was shown, turn by turn; the last one is what the policy sees now."""
    return [Screen(message.content) for message in messages if message.role in ("user", "tool")]


def goal(messages: Sequence[Message]) -> str:
    """What the page asked for; empty if it did not."""
    for message in messages:
        if message.role == "user" and (found := _GOAL.search(message.content)):
            return found[1]
    return ""
