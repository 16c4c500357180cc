"""Pages with fields: find what belongs into which, write it, submit."""

import re

from orchard_cli.trajectory import ToolCall

from .moment import Moment, Teacher, call, click, matched, write


def quoted_text(at: Moment) -> list[ToolCall]:
    return [write(at.need("textbox"), at.quoted[0]), at.submit]


def cased_text(at: Moment) -> list[ToolCall]:
    text = at.quoted[0]
    return [write(at.need("textbox"), text.lower() if "lower" in at.goal else text.upper()), at.submit]


def password(at: Moment) -> list[ToolCall]:
    return [*(write(box, at.quoted[0]) for box in at.screen.all("textbox")), at.submit]


def login(at: Moment) -> list[ToolCall]:
    boxes = at.screen.all("textbox")
    return [write(boxes[0], at.quoted[0]), write(boxes[1], at.quoted[1]), click(at.need("button"))]


def date(at: Moment) -> list[ToolCall]:
    month, day, year = matched(r"(\d\d)/(\d\d)/(\d{4})", at.goal)
    box = at.need("date", "textbox")
    return [write(box, f"{year}-{month}-{day}" if box.role == "date" else f"{month}/{day}/{year}"), at.submit]


def time(at: Moment) -> list[ToolCall]:
    hour, minute, half = matched(r"(\d+):(\d\d) ([AP]M)", at.goal)
    hours = int(hour) % 12 + (12 if half == "PM" else 0)
    return [write(at.need("time", "textbox"), f"{hours:02d}:{minute}"), at.submit]


def pick(at: Moment) -> list[ToolCall]:
    (name,) = matched(r"^Select (.*) from the (?:scroll )?list", at.goal)
    return [write(at.need("combobox", "listbox"), name), at.submit]


def dropdown(at: Moment) -> list[ToolCall]:
    (choice,) = matched(r"Choose (.*) from the dropdown", at.goal)
    return [write(at.need("combobox"), choice), click(at.need("button", name=at.quoted[0]))]


def radio_and_number(at: Moment) -> list[ToolCall]:
    which, where = map(int, re.findall(r"(\d+)(?:st|nd|rd|th)", at.goal))
    radios, boxes = at.screen.all("radio"), at.screen.all("textbox")
    return [click(radios[which - 1]), write(boxes[where - 1], at.quoted[0]), at.submit]


def copy(at: Moment) -> list[ToolCall]:
    boxes = at.screen.all("textbox")
    found = re.search(r"the (\d+)(?:st|nd|rd|th) text area", at.goal)
    full = [box for box in boxes if box.value]
    source = boxes[int(found[1]) - 1] if found else full[0]
    target = next(box for box in boxes if not box.value)
    return [write(target, source.value), at.submit]


def last_word(at: Moment) -> list[ToolCall]:
    boxes = at.screen.all("textbox")
    return [write(boxes[1], boxes[0].value.split()[-1].strip(".,")), at.submit]


def nth_word(at: Moment) -> list[ToolCall]:
    number = int(matched(r"the (\d+)(?:st|nd|rd|th) word", at.goal)[0])
    text = " ".join(t.name for t in at.screen.all("text"))
    return [write(at.need("textbox"), text.split()[number - 1].strip(".,")), at.submit]


def sum_of(at: Moment) -> list[ToolCall]:
    left, sign, right = matched(r"(-?\d+) ([-+*x]) (-?\d+) =", at.screen.text)
    a, b = int(left), int(right)
    answer = {"+": a + b, "-": a - b, "*": a * b, "x": a * b}[sign]
    return [write(at.need("textbox"), str(answer)), at.submit]


def unknown(at: Moment) -> list[ToolCall]:
    """`8 - x = 85`, `x + 3 = 5` …"""
    left, sign, right, result = matched(r'"(-?\w+) ([-+]) (-?\w+) = (-?\d+)"', at.screen.text)
    c = int(result)
    x = c - int(right) * (1 if sign == "+" else -1) if left == "x" else (c - int(left)) * (1 if sign == "+" else -1)
    return [write(at.need("textbox"), str(x)), at.submit]


def table(at: Moment) -> dict[str, str]:
    """Label → value, of a table with two columns."""
    names = [t.name for t in at.screen.all("text", "cell", "header")]
    return {names[i].rstrip(":"): names[i + 1] for i in range(0, len(names) - 1, 2)}


def read_table(at: Moment) -> list[ToolCall]:
    (label,) = matched(r"value of (.*) into", at.goal)
    return [write(at.need("textbox"), table(at)[label]), at.submit]


def read_table_form(at: Moment) -> list[ToolCall]:
    values, calls = table(at), []
    for label, box in zip(at.screen.all("label"), at.screen.all("textbox"), strict=True):
        calls.append(write(box, values[label.name.rstrip(":")]))
    return [*calls, at.submit]


def letters(at: Moment) -> list[ToolCall]:
    return [write(at.need("textbox"), "".join(t.name for t in at.screen.all("text"))), at.submit]


def movies(at: Moment) -> list[ToolCall]:
    genre, director, year = matched(r"for (.*) movies directed by (.*) from year (\d+)", at.goal)
    calls, things = [], list(at.screen.things)
    for index, thing in enumerate(things):
        if thing.role == "textbox":
            beside = things[index + (1 if things[0].role == "textbox" else -1)]
            label = (thing.name or beside.name).lower()
            text = director if "director" in label else genre if "genre" in label else year
            calls.append(write(thing, text))
    return [*calls, click(next(t for t in things if t.name.lower() in ("submit", "go!", "search", "go", "search!")))]


def spinner(at: Moment) -> list[ToolCall]:
    """The field takes no keys: its arrows are clicked."""
    number = int(matched(r"Select (-?\d+) with", at.goal)[0])
    up, down = at.screen.all("button")[:2]
    return [*[click(up if number > 0 else down)] * abs(number), at.submit]


def slider(at: Moment) -> list[ToolCall]:
    """Focus the handle, then as many keys as the distance."""
    wanted = int(matched(r"Select (-?\d+) with", at.goal)[0])
    handle = at.need("clickable", that=lambda t: "slider" in t.rest or "slider" in t.name)
    now = int(at.need("text", that=lambda t: bool(re.fullmatch(r"-?\d+", t.name))).name)
    return [*_moved(handle.id, wanted - now), at.submit] if wanted != now else [at.submit]


def sliders(at: Moment) -> list[ToolCall]:
    wanted = [int(n) for n in re.findall(r"\d+", matched(r"\[(.*)\]", at.goal)[0])]
    handles = at.screen.all("clickable")
    now = [int(t.name) for t in at.screen.all("text") if t.name.isdigit()]
    calls = []
    for handle, have, want in zip(handles, now, wanted, strict=True):
        calls += _moved(handle.id, want - have)
    return [*calls, at.submit]


def _moved(id: int, by: int) -> list[ToolCall]:
    if not by:
        return []
    key, calls, left = "ArrowRight" if by > 0 else "ArrowLeft", [call("click", id=id)], abs(by)
    while left:
        calls.append(call("press_keys", keys=[key], presses=min(left, 50)))
        left -= min(left, 50)
    return calls


TEACHERS: dict[str, Teacher] = {
    "enter-text": quoted_text,
    "enter-text-2": cased_text,
    "enter-text-dynamic": quoted_text,
    "enter-password": password,
    "login-user": login,
    "enter-date": date,
    "enter-time": time,
    "choose-list": pick,
    "click-scroll-list": pick,
    "form-sequence-3": dropdown,
    "form-sequence-2": radio_and_number,
    "copy-paste": copy,
    "copy-paste-2": copy,
    "scroll-text": last_word,
    "find-word": nth_word,
    "simple-arithmetic": sum_of,
    "simple-algebra": unknown,
    "read-table": read_table,
    "read-table-2": read_table_form,
    "text-transform": letters,
    "multi-layouts": movies,
    "multi-orderings": movies,
    "use-spinner": spinner,
    "use-slider": slider,
    "use-slider-2": sliders,
}
