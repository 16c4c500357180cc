"""The browser as a toolset: what the policy may do in one attempt, and what it sees.

Time limits lie inside each other: a page has 5 s to answer anything and 15 s to load, an action 60 s beyond what it
waits for, the driver 10 s more, and the line to it 5 s more than that. Whatever the page did is feedback to the policy;
only what neither did ends the attempt as a fault.
"""

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from orchard_cli.env.sandbox import Sandbox
from orchard_cli.harness import literals
from orchard_cli.harness.tools import ToolResult
from orchard_cli.trajectory import ToolCall

from .actions import SPECS, Refused, checked
from .marks import marked
from .seats import Seat, Seats
from .visit import Site, Visit

ACT_S = 70.0
LOOK_S = 60.0
SHOT = 4000  # characters of a page's text, the last, that are kept for a judge
VIEWS = ("axtree", "screenshot", "both", "marks")
Json = dict[str, Any]


@dataclass(frozen=True)
class View:
    """What is shown: lines of text, a picture, or a picture with the numbers drawn in; `keep` stores a picture."""

    kind: str
    keep: Callable[[bytes], str]

    @property
    def tree(self) -> bool:
        return self.kind != "screenshot"

    @property
    def picture(self) -> bool:
        return self.kind != "axtree"


class Browser:
    """See `Toolset`. `final` gets the end state when the attempt is over, however it ended: with the policy's `answer`,
    its `actions` as lines, and `shots`, what it saw, as judges want it.
    """

    specs = SPECS

    def __init__(
        self, seats: Seats, sandbox: Sandbox, site: Site, visit: Visit, view: View, final: Callable[[Json], None]
    ):
        self._seats, self._sandbox, self._site = seats, sandbox, site
        self._visit, self._view, self._final = visit, view, final
        self._seat: Seat | None = None
        self._status: Json | None = None
        self._answer: str | None = None
        self._actions: list[str] = []
        self._shots: list[Json] = []

    def open(self) -> ToolResult:
        """Raises `BrowserFault` if there is no browser or no site to be had."""
        self._seat, begun = self._seats.take(self._sandbox, self._site, self._visit)
        self._status = begun["status"]
        told = f"Goal: {begun['begun']}" if isinstance(begun["begun"], str) else ""
        seen = self.observe()
        return ToolResult("\n".join(part for part in (told, seen.text) if part), images=seen.images)

    def call(self, call: ToolCall) -> ToolResult:
        self._actions.append(literals.write(call))
        try:
            arguments = checked(call.name, call.arguments)
        except Refused as refused:
            return ToolResult(str(refused), refused.code)
        if call.name == "done":
            self._answer = arguments.get("response", "")
            return ToolResult(stop=True)
        said = self._ask("act", ACT_S + arguments.get("seconds", 0), name=call.name, args=arguments)
        self._status = said["status"]
        return ToolResult(said["text"], said["code"], stop=bool(self._status and self._status.get("done")))

    def observe(self) -> ToolResult:
        said = self._ask(
            "observe",
            LOOK_S,
            tree=self._view.tree,
            picture=self._view.picture,
            every=self._visit.every,
            all=self._visit.whole,
            skip=self._visit.skip,
            most=self._visit.lines,
        )
        parts = [note for _, note in said["notes"]] + self._where(said)
        if self._view.kind in ("axtree", "both"):
            parts += lines(said["tree"])
        images: tuple[str, ...] = ()
        if self._view.picture:
            picture = base64.b64decode(said["picture"])
            if self._view.kind == "marks":
                picture = marked(picture, said["tree"]["rects"])
                parts += said["tree"]["lines"]
            images = (self._view.keep(picture),)
        self._shots.append({"image": images[0]} if images else {"text": "\n".join(parts)[-SHOT:]})
        return ToolResult("\n".join(parts), images=images)

    def _where(self, said: Json) -> list[str]:
        if not self._visit.where:
            return []
        if len(said["tabs"]) == 1:
            return [f"url: {said['url'][:300]}"]
        return [f"tab [{i}]{' in front' if front else ''}: {url}" for i, (url, front) in enumerate(said["tabs"])]

    def close(self) -> None:
        """Take the end state down and hand the browser back. A fault here is the grader's to see."""
        seat, self._seat = self._seat, None
        if seat is None:
            return
        try:
            state = {"answer": self._answer, "status": self._status, "actions": self._actions, "shots": self._shots}
            if not seat.broken:
                state |= seat.ask("state", LOOK_S)
            self._final(state)
        finally:
            self._seats.give(self._site, seat)

    def _ask(self, op: str, timeout_s: float, **args: Any) -> Json:
        assert self._seat is not None, "the browser is not open"
        return self._seat.ask(op, timeout_s, **args)


def lines(tree: Json) -> list[str]:
    """The page as text, with how much of it lies elsewhere."""
    shown: list[str] = list(tree["lines"])
    if tree["above"]:
        shown.insert(0, f"({tree['above']} elements above, scroll up)")
    if tree["below"]:
        shown.append(f"({tree['below']} elements below, scroll down)")
    if tree["cut"]:
        shown.append(f"({tree['cut']} more elements are not shown)")
    return shown or ["(the page is empty)"]
