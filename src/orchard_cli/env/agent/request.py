"""The head of one request."""

from __future__ import annotations

import os
from binascii import unhexlify

from .problem import Problem

MOST = 1 << 62  # more than this is no time and no size: it has no place in a timer


class Request:
    """The head of one request; `body` is set once it is there, unless a child reads it."""

    def __init__(self, head: bytes):
        lines = head.split(b"\r\n")
        try:
            method, target, version = lines[0].decode("ascii").split(" ")
            self.headers = {
                name.strip().lower().decode("ascii"): value.strip().decode("latin-1")
                for name, _, value in (line.partition(b":") for line in lines[1:])
            }
            self.length = int(self.headers.get("content-length", 0))
            path, _, query = target.partition("?")
            self.parts = [_plain(part) for part in path.split("/")[1:]]
            self.query = dict(map(_pair, filter(None, query.split("&"))))
        except ValueError:
            raise Problem(400, "client.bad_request", "this is no HTTP/1.1 request") from None
        if not version.startswith("HTTP/1.") or self.length < 0:
            raise Problem(400, "client.bad_request", "this is no HTTP/1.1 request")
        self.method = method
        self.chunked = self.headers.get("transfer-encoding", "").lower() == "chunked"
        self.body = b""

    @property
    def streamed(self) -> bool:
        """Its body is for a child to read."""
        return self.method == "PUT" and self.parts[1:2] in (["files"], ["tar"], ["changed"])

    def number(self, name: str, default: float, least: float = 0.0) -> float:
        try:
            value = float(self.query.get(name, default))
        except ValueError:
            value = least - 1
        if not least <= value <= MOST:
            raise Problem(400, "client.bad_argument", f"{name} is no number that is allowed here")
        return value


def _pair(text: str) -> tuple[str, str]:
    name, _, value = text.replace("+", " ").partition("=")
    return _plain(name), _plain(value)


def _plain(text: str) -> str:
    """What percent signs stand for; `urllib` would be a tenth of the way to ready. Raises `ValueError`."""
    first, *rest = text.split("%")
    return os.fsdecode(b"".join([first.encode(), *(unhexlify(p[:2]) + p[2:].encode() for p in rest)])) if rest else text
