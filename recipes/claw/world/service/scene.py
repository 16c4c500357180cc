"""What a service sees while it does one call: the state, the owner, the time, and small words to answer with."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from . import times
from .answer import Refusal
from .state import Row, State

LINES, PAGE = 20, 2000  # lines of a list, characters of a page


class Scene:
    """Plain classes and named tuples here and beside: dataclasses alone would add a fifth to the start of a world."""

    def __init__(self, state: State, owner: dict[str, str], user: dict[str, Any], tz: str, now: datetime):
        self.state, self.owner, self.user, self.tz = state, owner, user, tz
        self.now = now  # UTC
        self.answer, self.done = "", False

    @property
    def clock(self) -> str:
        """`YYYY-MM-DDTHH:MM:SS` where the owner is."""
        return f"{self.now.astimezone(times.zone(self.tz)):%Y-%m-%dT%H:%M:%S}"

    @property
    def today(self) -> str:
        return self.clock[:10]

    def pass_time(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)


def matches(query: str, *texts: str) -> bool:
    """All words of the query occur, whatever their case."""
    whole = "\n".join(texts).casefold()
    return all(word in whole for word in query.casefold().split())


def listed(lines: Iterable[str], limit: int = 0, none: str = "nothing found") -> str:
    """One line an item, at most `limit` (default 20), and how many more there are."""
    if limit < 0:
        raise Refusal("bad_arguments", "limit must not be below 0")
    whole = [" ".join(line.split()) for line in lines]
    shown = whole[: limit or LINES]
    more = [f"[{len(whole) - len(shown)} more; narrow it down]"] if len(whole) > len(shown) else []
    return "\n".join([*shown, *more]) or none


def paged(text: str, page: int) -> str:
    """One page of a long text, with a note where it is cut. Raises `Refusal` where there is no such page."""
    pages = max(1, -(-len(text) // PAGE))
    page = page or 1
    if not 1 <= page <= pages:
        raise Refusal("bad_arguments", f"page: there are {pages}")
    part = text[(page - 1) * PAGE : page * PAGE]
    return f"{part}\n[page {page} of {pages}]" if pages > 1 else part


def given(**changes: Any) -> Row:
    """Those that are not empty. Raises `Refusal` if all are."""
    some = {name: value for name, value in changes.items() if value not in ("", [], None)}
    if not some:
        raise Refusal("bad_arguments", f"nothing to change: give one of {', '.join(changes)}")
    return some


def same_version(row: Row, version: int) -> None:
    if version and version != row["version"]:
        raise Refusal("conflict", f"{row['id']} is at version {row['version']} by now; read it again")


def needed(**texts: str) -> None:
    for name, text in texts.items():
        if not text.strip():
            raise Refusal("bad_arguments", f"{name} is empty")
