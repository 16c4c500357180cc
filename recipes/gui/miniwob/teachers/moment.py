"""What a teacher is given at one turn, and the words in which it answers."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from orchard_cli.trajectory import ToolCall

from ...screen import Screen, Thing


@dataclass(frozen=True)
class Moment:
    """`turn` is how many replies were given before; `said` is what they called, in order."""

    goal: str
    screen: Screen
    turn: int
    said: tuple[ToolCall, ...] = ()

    @property
    def quoted(self) -> list[str]:
        return re.findall(r'"([^"]*)"', self.goal)

    def need(self, *roles: str, name: str = "", that: Callable[[Thing], bool] = lambda _: True) -> Thing:
        """The thing, or `Lost`."""
        found = self.screen.find(*roles, name=name, that=that)
        if found is None:
            raise Lost(f"no {'/'.join(roles) or 'thing'} {name!r}")
        return found

    @property
    def submit(self) -> ToolCall:
        return click(self.need("button", "clickable", name="Submit"))


class Lost(Exception):
    """The page is not as the teacher knows it."""


Teacher = Callable[[Moment], Sequence[ToolCall]]


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall("", name, arguments)


def click(thing: Thing) -> ToolCall:
    return call("click", id=thing.id)


def write(thing: Thing, text: str) -> ToolCall:
    return call("write", id=thing.id, message=text)


def done() -> ToolCall:
    return call("done")


def matched(pattern: str, text: str) -> tuple[str, ...]:
    """The groups of a pattern in a goal, or `Lost`."""
    found = re.search(pattern, text)
    if not found:
        raise Lost(f"the goal is not as expected: {text!r}")
    return tuple(group or "" for group in found.groups())


def words(text: str) -> list[str]:
    """The members of a list in a goal: `a, b and c`."""
    return [part.strip() for part in re.split(r",| and ", text) if part.strip()]
