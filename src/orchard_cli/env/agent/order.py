"""What is asked for when a command is to run."""

from __future__ import annotations

import os

from .problem import Json, Problem
from .request import MOST


class Order:
    """What is asked for, checked. Times in seconds, sizes in bytes."""

    FIELDS = {
        **{"argv": list, "script": str, "cwd": str, "env": dict, "stdin": str, "tty": dict, "timeout_s": float},
        **{"no_output_timeout_s": float, "kill_grace_s": float, "max_bytes": int, "ring_bytes": int},
        **{"spool_bytes": int, "paced": bool, "merge": bool, "linger": str, "login": dict},
    }

    def __init__(self, given: Json, data: bytes):
        for name, value in given.items():
            kind = self.FIELDS.get(name)
            if kind is None:
                raise Problem(400, "client.bad_argument", f"unknown field {name}")
            if value is not None and not isinstance(value, (int, float) if kind is float else kind):
                raise Problem(400, "client.bad_argument", f"{name} must be a {kind.__name__}")
            if isinstance(value, (int, float)) and not (0 <= value <= MOST or value == float("inf")):
                raise Problem(400, "client.bad_argument", f"{name} is a number from 0 up")
        get = given.get
        self.argv: list[str] | None = get("argv")
        self.script: str | None = get("script")
        self.cwd: str = get("cwd") or ""
        self.env: dict[str, str | None] = get("env") or {}
        self.tty: Json | None = get("tty")
        self.stdin: str = get("stdin") or ("body" if data else "none")
        self.data = data
        self.timeout: float = float(get("timeout_s") or 60.0)
        self.silence: float = float(get("no_output_timeout_s") or 0.0)
        self.grace: float = float(0.5 if get("kill_grace_s") is None else given["kill_grace_s"])
        self.cap: int = 1 << 20 if get("max_bytes") is None else given["max_bytes"]
        self.ring: int = 1 << 20 if get("ring_bytes") is None else given["ring_bytes"]
        self.spool: int = get("spool_bytes") or 0
        self.paced = bool(get("paced"))
        self.merge = bool(get("merge")) or self.tty is not None
        self.linger: str = get("linger") or "keep"
        self.login: dict[str, str] | None = get("login")  # what a login shell begins with
        self._check()

    def _check(self) -> None:
        words = [
            self.script or "",
            self.cwd,
            *(self.argv or ()),
            *self.env,
            *(v for v in self.env.values() if v is not None),
            *(word for pair in (self.login or {}).items() for word in pair),
        ]
        if (self.argv is None) == (self.script is None) or self.argv == []:
            raise Problem(400, "client.bad_argument", "give either argv or script, and not an empty one")
        if not _texts(words):
            raise Problem(400, "client.bad_argument", "a word is no text or holds a NUL byte")
        if any("=" in name or not name for name in (*self.env, *(self.login or ()))):
            raise Problem(400, "client.bad_argument", "a variable's name is empty or holds an equals sign")
        if self.stdin not in ("none", "body", "open") or self.linger not in ("keep", "none"):
            raise Problem(400, "client.bad_argument", "stdin is none, body or open; linger is keep or none")


def _texts(words: list[str]) -> bool:
    """Without NUL bytes and halves of characters; nobody has checked before what kind they are."""
    try:
        return b"\0" not in os.fsencode("".join(words))
    except (TypeError, UnicodeEncodeError):
        return False
