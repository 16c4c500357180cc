"""The 13 tools of the published recipe (paper, section 5.1): their schemas, and what a policy's call comes to.

Places are ids of the last observation or points in thousandths of the viewport. A call that cannot be made is answered
with a code, never with a fault.
"""

import math
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from .keys import named

Json = dict[str, Any]

ID: Json = {"type": "integer", "description": "number of an element in the last observation"}
POINT: Json = {
    "type": "array",
    "items": {"type": "number", "minimum": 0, "maximum": 1000},
    "minItems": 2,
    "maxItems": 2,
    "description": "[x, y] in thousandths of the viewport",
}
BUTTON: Json = {"type": "string", "enum": ["left", "right", "middle"]}
DIRECTION: Json = {"type": "string", "enum": ["up", "down", "left", "right"]}
KEYS: Json = {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 32}
URL_CHARS = 4000


class Refused(Exception):
    """A call that is not made: `code`, and words for the policy."""

    def __init__(self, code: str, message: str):
        super().__init__(message)
        self.code = code


def _whole(least: int, most: int) -> Json:
    return {"type": "integer", "minimum": least, "maximum": most}


def _number(least: float, most: float) -> Json:
    return {"type": "number", "minimum": least, "maximum": most}


def _text(most: int) -> Json:
    return {"type": "string", "maxLength": most}


# name → (what it does, arguments, those that are needed, groups of which exactly one is)
TOOLS: Mapping[str, tuple[str, Json, tuple[str, ...], tuple[tuple[str, str], ...]]] = {
    "click": (
        "Click an element or a point.",
        {"id": ID, "point_2d": POINT, "clicks": _whole(1, 3), "button": BUTTON},
        (),
        (("id", "point_2d"),),
    ),
    "write": (
        "Replace the text of a field, or type where the focus is; chooses the option of a list.",
        {"message": _text(20_000), "id": ID},
        ("message",),
        (),
    ),
    "press_keys": (
        "Press keys one after the other, or together as a hotkey.",
        {"keys": KEYS, "is_hotkey": {"type": "boolean"}, "presses": _whole(1, 50)},
        ("keys",),
        (),
    ),
    "scroll": (
        "Scroll the page, or what holds the element or point, by a share of its size.",
        {"direction": DIRECTION, "amount": _number(0, 1), "id": ID, "point_2d": POINT},
        ("direction",),
        (),
    ),
    "wait": ("Wait.", {"seconds": _number(0, 30)}, (), ()),
    "drag": (
        "Press at the start, move to the end, let go.",
        {"start_id": ID, "end_id": ID, "start_point_2d": POINT, "end_point_2d": POINT, "steps": _whole(1, 100)},
        (),
        (("start_id", "start_point_2d"), ("end_id", "end_point_2d")),
    ),
    "hover": ("Move the mouse over.", {"id": ID, "point_2d": POINT}, (), (("id", "point_2d"),)),
    "goto_url": ("Open an address.", {"url": _text(URL_CHARS)}, ("url",), ()),
    "go_back": ("Go back to the page before.", {}, (), ()),
    "new_tab": ("Open a new tab.", {"url": _text(URL_CHARS)}, (), ()),
    "switch_tab": ("Bring a tab to the front.", {"tab_index": _whole(0, 99)}, ("tab_index",), ()),
    "close_tab": ("Close the tab in front.", {}, (), ()),
    "done": ("End the task, with the answer if there is one.", {"response": _text(20_000)}, (), ()),
}


def spec(name: str) -> Json:
    """The function tool as chat endpoints take it."""
    about, arguments, needed, _ = TOOLS[name]
    parameters = {
        "type": "object",
        "properties": arguments,
        "required": list(needed),
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "description": about, "parameters": parameters}}


SPECS: tuple[Json, ...] = tuple(map(spec, TOOLS))


def checked(name: str, arguments: Mapping[str, Any]) -> Json:
    """The arguments as the driver takes them. Raises `Refused`."""
    if name not in TOOLS:
        raise Refused("unknown_tool", f"there is no tool {name[:40]!r}; there are: {', '.join(TOOLS)}")
    _, known, needed, groups = TOOLS[name]
    given = {key: value for key, value in arguments.items() if value is not None}
    for key in given:
        if key not in known:
            raise Refused("bad_arguments", f"{name} takes no {key[:40]!r}; it takes: {', '.join(known) or 'nothing'}")
    for key in needed:
        if key not in given:
            raise Refused("bad_arguments", f"{name} needs {key}")
    for group in groups:
        if sum(key in given for key in group) != 1:
            raise Refused("bad_arguments", f"{name} needs either {' or '.join(group)}")
    return {key: _value(key, known[key], value) for key, value in given.items()} | _special(name, given)


def _special(name: str, given: Json) -> Json:
    """What a schema does not say: keys have names, addresses have schemes, one place is enough."""
    if name == "press_keys":
        return {"keys": named(_value("keys", KEYS, given["keys"]), bool(given.get("is_hotkey")))}
    if name == "scroll" and "id" in given and "point_2d" in given:
        raise Refused("bad_arguments", "scroll needs either id or point_2d")
    if "url" in given:
        return {"url": address(given["url"])}
    return {}


def address(url: Any) -> str:
    """An address of the web. Raises `Refused` for scripts, files and the browser's own pages."""
    text = str(url).strip()
    if text == "about:blank":
        return text
    if "://" not in text and not text.lower().startswith(("javascript:", "data:", "file:", "about:", "view-source:")):
        text = f"https://{text}"
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018 - raises for what is no port
    except ValueError:
        raise Refused("refused_url", "that is no address") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or any(c.isspace() or c < " " for c in text):
        raise Refused("refused_url", "only http and https addresses can be opened")
    return text


def _value(key: str, schema: Json, value: Any) -> Any:
    kind = schema["type"]
    if kind in ("integer", "number"):
        return _numeric(key, schema, value)
    if kind == "boolean":
        if not isinstance(value, bool):
            raise Refused("bad_arguments", f"{key} must be true or false")
        return value
    if kind == "array":
        return _array(key, schema, value)
    if not isinstance(value, str):
        raise Refused("bad_arguments", f"{key} must be text")
    if "enum" in schema and value not in schema["enum"]:
        raise Refused("bad_arguments", f"{key} must be one of: {', '.join(schema['enum'])}")
    if len(value) > schema.get("maxLength", math.inf):
        raise Refused("bad_arguments", f"{key} is longer than {schema['maxLength']} characters")
    return value.encode("utf-8", "replace").decode()


def _numeric(key: str, schema: Json, value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise Refused("bad_arguments", f"{key} must be a number")
    if schema["type"] == "integer":
        if value != int(value):
            raise Refused("bad_arguments", f"{key} must be a whole number")
        value = int(value)
    least, most = schema.get("minimum", -(2**31)), schema.get("maximum", 2**31)
    if not least <= value <= most:
        code = "outside" if schema is POINT["items"] else "bad_arguments"
        raise Refused(code, f"{key} must lie between {least:g} and {most:g}")
    return value


def _array(key: str, schema: Json, value: Any) -> list[Any]:
    if isinstance(value, str) and schema is KEYS:
        value = [value]
    least, most = schema["minItems"], schema["maxItems"]
    if not isinstance(value, list | tuple) or not least <= len(value) <= most:
        many = f"{least}" if least == most else f"{least} to {most}"
        raise Refused("bad_arguments", f"{key} must be a list of {many}")
    return [_value(key, schema["items"], each) for each in value]
