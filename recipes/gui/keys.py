"""Names of keys as models write them → as the browser takes them."""

from collections.abc import Sequence

NAMES = {
    "ctrl": "Control",
    "control": "Control",
    "cmd": "Meta",
    "command": "Meta",
    "meta": "Meta",
    "win": "Meta",
    "super": "Meta",
    "alt": "Alt",
    "option": "Alt",
    "shift": "Shift",
    "enter": "Enter",
    "return": "Enter",
    "esc": "Escape",
    "escape": "Escape",
    "tab": "Tab",
    "space": "Space",
    "spacebar": "Space",
    "backspace": "Backspace",
    "delete": "Delete",
    "del": "Delete",
    "insert": "Insert",
    "home": "Home",
    "end": "End",
    "pageup": "PageUp",
    "page_up": "PageUp",
    "pgup": "PageUp",
    "pagedown": "PageDown",
    "page_down": "PageDown",
    "pgdn": "PageDown",
    **{
        f"{prefix}{way}": f"Arrow{way.title()}"
        for prefix in ("", "arrow", "arrow_")
        for way in ("up", "down", "left", "right")
    },
    **{f"f{n}": f"F{n}" for n in range(1, 13)},
}
MODIFIERS = ("Control", "Meta", "Alt", "Shift")


def named(keys: Sequence[str], hotkey: bool) -> list[str]:
    """Each key in the browser's words; `ctrl+a` is split where it is a hotkey. Raises `Refused` for an unknown one."""
    if hotkey and len(keys) == 1 and "+" in keys[0][1:]:
        first, *rest = keys[0].split("+")
        keys = [first, *(part or "+" for part in rest)]
    return [key if len(key) == 1 and key.isprintable() else _named(key) for key in keys]


def _named(key: str) -> str:
    parts = [part.strip() for part in key.split("+")] if "+" in key[1:] else [key]
    found = [
        part if len(part) == 1 and part.isprintable() else NAMES.get(part.strip("<>").lower(), "") for part in parts
    ]
    if "" in found or any(part not in MODIFIERS for part in found[:-1]):
        from .actions import Refused

        raise Refused("unknown_key", f"there is no key {key[:40]!r}")
    return "+".join(found)
