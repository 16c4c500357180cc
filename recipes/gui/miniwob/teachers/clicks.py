"""Pages that a click or two on the right thing solves."""

import re

from orchard_cli.trajectory import ToolCall

from ...screen import Thing
from .moment import Lost, Moment, Teacher, call, click, matched, words

SIZES = {"small": lambda side: side < 15, "large": lambda side: side >= 15}
SHAPES = {
    "circle": lambda t: t.role == "circle",
    "rectangle": lambda t: t.role == "rect",
    "triangle": lambda t: t.role == "polygon",
    "letter": lambda t: t.role == "text" and t.name.isalpha(),
    "digit": lambda t: t.role == "text" and t.name.isdigit(),
    "number": lambda t: t.role == "text" and t.name.isdigit(),
}


def only_button(at: Moment) -> list[ToolCall]:
    return [click(at.need("button"))]


def named_button(at: Moment) -> list[ToolCall]:
    """`Click button ONE.`, `Click on the "Next" button.`, `Click the cancel button.`"""
    name = at.quoted[0] if at.quoted else matched(r"(\w+) ?(?:button)?\.$", at.goal.replace(" button.", "."))[0]
    return [click(at.need("button", name=name))]


def two_buttons(at: Moment) -> list[ToolCall]:
    return [click(at.need("button", name="ONE")), click(at.need("button", name="TWO"))]


def named_link(at: Moment) -> list[ToolCall]:
    return [click(at.need("clickable", "link", name=at.quoted[0]))]


def named_tab(at: Moment) -> list[ToolCall]:
    return [click(at.need("tab", name=matched(r"(Tab #\d+)", at.goal)[0]))]


def dialog(at: Moment) -> list[ToolCall]:
    name = at.quoted[0] if at.quoted else "x"
    return [click(at.need("button", name="Close" if name == "x" else name))]


def chosen_boxes(at: Moment) -> list[ToolCall]:
    (names,) = matched(r"^Select (.*) and click Submit", at.goal)
    wanted = [] if names == "nothing" else words(names)
    return [*(click(at.need("checkbox", "radio", name=name)) for name in wanted), at.submit]


def color(at: Moment) -> list[ToolCall]:
    (name,) = matched(r"on the (\w+) colored", at.goal)
    return [click(at.need("box", that=lambda t: t.tone == name))]


def described(description: str, things: list[Thing]) -> list[Thing]:
    """The shapes that `large red circle`, `small digit`, `blue x` … fit."""
    left = list(things)
    for word in description.split():
        single = word.removesuffix("s") if word not in ("items", "item") else "item"
        if word in SIZES:
            left = [t for t in left if SIZES[word](max(t.place[2:]))]
        elif single in SHAPES:
            left = [t for t in left if SHAPES[single](t)]
        elif single in ("item", "shape"):
            continue
        elif len(word) == 1 or (len(single) == 1 and word.endswith("s")):
            left = [t for t in left if t.role == "text" and t.name == single]
        else:
            left = [t for t in left if t.tone == word]
    return left


def shapes(at: Moment) -> list[Thing]:
    return [t for t in at.screen.things if t.role in ("circle", "rect", "polygon", "text") and t.tone]


def shape(at: Moment) -> list[ToolCall]:
    (description,) = matched(r"^Click on an? (.*?)\.?$", at.goal)
    fitting = described(description, shapes(at))
    if not fitting:
        raise Lost(description)
    return [click(fitting[0])]


def count(at: Moment) -> list[ToolCall]:
    (description,) = matched(r"^How many (.*) are there", at.goal)
    number = len(described(description, shapes(at)))
    return [click(at.need("button", name=str(number)))]


def identify(at: Moment) -> list[ToolCall]:
    figure = shapes(at)[0]
    kind = next(name for name in ("circle", "rectangle", "triangle", "letter", "number") if SHAPES[name](figure))
    return [click(at.need("button", name=kind))]


def ascending(at: Moment) -> list[ToolCall]:
    numbers = sorted((t for t in at.screen.all("text", "rect") if t.name.isdigit()), key=lambda t: int(t.name))
    return [call("click", point_2d=[t.place[0], t.place[1]]) for t in numbers]


def grid(at: Moment) -> list[ToolCall]:
    x, y = map(int, matched(r"\((-?\d+),(-?\d+)\)", at.goal))
    circles = at.screen.all("circle")
    columns, rows = (sorted({t.place[axis] for t in circles}) for axis in (0, 1))
    wanted = (columns[x + 2], rows[2 - y])
    return [click(at.need("circle", that=lambda t: t.place[:2] == wanted))]


def shades(at: Moment) -> list[ToolCall]:
    (name,) = matched(r"shades of (\w+)", at.goal)
    place = ("red", "green", "blue").index(name)
    wanted = [t for t in at.screen.all("box") if _strongest(t.tone) == place]
    return [*map(click, wanted), at.submit]


def _strongest(tone: str) -> int:
    plain = {"red": "#ff0000", "green": "#008000", "lime": "#00ff00", "blue": "#0000ff"}
    parts = re.findall(r"[0-9a-f]{2}", plain.get(tone, tone))
    return parts.index(max(parts)) if parts else -1


def center(at: Moment) -> list[ToolCall]:
    x, y = at.need("circle").place[:2]
    return [call("click", point_2d=[x, y]), at.submit]


def odd_or_even(at: Moment) -> list[ToolCall]:
    calls, things = [], list(at.screen.things)
    for index, thing in enumerate(things):
        if thing.role == "text" and re.fullmatch(r"-?\d+", thing.name):
            calls.append(click(things[index + 1] if int(thing.name) % 2 == 0 else things[index - 1]))
    return [*calls, at.submit]


def focus(at: Moment) -> list[ToolCall]:
    boxes = at.screen.all("textbox")
    found = re.search(r"the (\d+)(?:st|nd|rd|th)", at.goal)
    return [click(boxes[int(found[1]) - 1 if found else 0])]


def blocks(at: Moment) -> list[ToolCall]:
    total = len([t for t in at.screen.all("box") if t.tone.startswith("#")])
    return [call("write", id=at.need("textbox").id, message=str(total)), at.submit]


TEACHERS: dict[str, Teacher] = {
    "click-test": only_button,
    "click-test-2": named_button,
    "click-test-transfer": named_button,
    "click-button": named_button,
    "unicode-test": named_button,
    "click-button-sequence": two_buttons,
    "click-link": named_link,
    "click-tab": named_tab,
    "click-dialog": dialog,
    "click-dialog-2": dialog,
    "click-checkboxes": chosen_boxes,
    "click-checkboxes-large": chosen_boxes,
    "click-checkboxes-transfer": chosen_boxes,
    "click-option": chosen_boxes,
    "click-color": color,
    "click-shape": shape,
    "count-shape": count,
    "identify-shape": identify,
    "ascending-numbers": ascending,
    "grid-coordinate": grid,
    "click-shades": shades,
    "circle-center": center,
    "odd-or-even": odd_or_even,
    "focus-text": focus,
    "focus-text-2": focus,
    "visual-addition": blocks,
}
