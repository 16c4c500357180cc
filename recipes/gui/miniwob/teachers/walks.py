"""Pages that take several turns: what is wanted only shows after something else was clicked."""

import re

from orchard_cli.trajectory import ToolCall

from ...screen import Thing
from .moment import Lost, Moment, Teacher, call, click, matched, write


def behind_tabs(at: Moment) -> list[ToolCall]:
    """Open one section after the other until the link shows."""
    link = at.screen.find("clickable", "link", name=at.quoted[0])
    if link:
        return [click(link)]
    tried = {c.arguments.get("id") for c in at.said}
    closed = [t for t in at.screen.all("tab") if not t.has("expanded") and t.id not in tried]
    if not closed:
        raise Lost("the link is nowhere")
    return [click(closed[0])]


def section(at: Moment) -> list[ToolCall]:
    closed = at.screen.find("tab", that=lambda t: t.has("collapsed") and t.name.startswith("Section"))
    return [click(closed)] if closed else [at.submit]


def tree(at: Moment) -> list[ToolCall]:
    """Open every folder until the name shows."""
    wanted = at.screen.find("text", "clickable", name=at.quoted[0])
    if wanted:
        return [click(wanted)]
    tried = {c.arguments.get("id") for c in at.said}
    closed = [t for t in at.screen.all("image") if "expandable" in t.rest and t.id not in tried]
    if not closed:
        raise Lost("the name is nowhere")
    return [click(closed[0])]


def menu(at: Moment) -> list[ToolCall]:
    """Hover from item to item; the last one is clicked."""
    path = matched(r"^Select (.*)$", at.goal)[0].split(">")
    name = path[min(at.turn, len(path) - 1)]
    item = at.need("menuitem", name=name)
    return [click(item)] if at.turn >= len(path) - 1 else [call("hover", id=item.id), call("wait", seconds=0.5)]


def search(at: Moment) -> list[ToolCall]:
    number = int(matched(r"the (\d+)(?:st|nd|rd|th) search result", at.goal)[0])
    if at.turn == 0:
        return [write(at.need("textbox"), at.quoted[0]), click(at.need("button", name="Search"))]
    results = [t for t in at.screen.all("link", "clickable") if not re.fullmatch(r"[<>]|\d+", t.name)]
    page, place = divmod(number - 1, 3)
    if page and not any(c.arguments.get("id") == _page(at, page + 1).id for c in at.said):
        return [click(_page(at, page + 1))]
    return [click(results[place])]


def _page(at: Moment, number: int) -> Thing:
    return at.need("link", "clickable", name=str(number))


TEACHERS: dict[str, Teacher] = {
    "click-collapsible": section,
    "click-collapsible-nodelay": section,
    "click-collapsible-2": behind_tabs,
    "click-collapsible-2-nodelay": behind_tabs,
    "click-tab-2": behind_tabs,
    "click-tab-2-easy": behind_tabs,
    "click-tab-2-medium": behind_tabs,
    "click-tab-2-hard": behind_tabs,
    "navigate-tree": tree,
    "click-menu": menu,
    "search-engine": search,
}
