"""Mail addresses in the forms that people write: `a@b.c`, `Name <a@b.c>`, several with commas."""

import re

from .answer import Refusal

SPLIT = re.compile(r"[,;]")
NAMED = re.compile(r"\s*(?:[^<>]*<\s*([^<>\s]+)\s*>|(\S+))\s*")
PLAIN = re.compile(r"[^\s@<>,;\"']+@[^\s@<>,;\"']+\.[^\s@<>,;\"'.]+")


def plain(text: str, field: str) -> str:
    """One address, lower case. Raises `Refusal`."""
    found = NAMED.fullmatch(text)
    address = (found[1] or found[2] if found else "").lower()
    if not PLAIN.fullmatch(address):
        raise Refusal("bad_arguments", f"{field}: `{text.strip()[:60]}` is not a mail address")
    return address


def several(text: str, field: str, *, needed: bool = False) -> list[str]:
    """Distinct addresses in order. Raises `Refusal` for a bad one, or for none where one is needed."""
    parts = [part for part in SPLIT.split(text) if part.strip()]
    if needed and not parts:
        raise Refusal("bad_arguments", f"{field} is empty")
    return list(dict.fromkeys(plain(part, field) for part in parts))
