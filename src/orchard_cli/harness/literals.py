"""A tool call as one line of text: `write(id=3, text="hello")`, with the values that JSON knows, as Python writes them.

A small reader of its own, for the lines come from a model: nothing is evaluated, depth and length are bounded, and
no line can warn, crash or slow down the process that reads it (Python's own parser does all three).
"""

import math
import re
from typing import Any, NoReturn

from ..trajectory import ToolCall
from .formats import FormatError

MOST_CHARS = 100_000
_DEEPEST = 16
_DIGITS = 400

_TOKEN = re.compile(
    r"""[ \t]*(?:
    (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<number>[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?(?!\w))
    |(?P<word>[A-Za-z_][\w.-]*)
    |(?P<sign>[][(){},:=])
    |(?P<end>\Z))""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\\": "\\", "'": "'", '"': '"', "/": "/", "\n": ""}
_WORDS = {"True": True, "False": False, "None": None, "true": True, "false": False, "null": None}
_UNSAFE = re.compile(r"[\x00-\x1f\x7f]")
_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def write(call: ToolCall) -> str:
    """The call on one line; `read` gives it back if its arguments are JSON values with finite numbers."""
    return f"{call.name}({', '.join(f'{key}={_written(value)}' for key, value in call.arguments.items())})"


def read(line: str, id: str) -> ToolCall:
    """The call that a line holds. Raises `FormatError` that names what is wrong with it."""
    if len(line) > MOST_CHARS:
        raise FormatError(f"a call of {len(line)} characters is too long")
    _sound(line, 0)
    reader = _Reader(line.rstrip())
    call = ToolCall(id, reader.take("word"), reader.arguments())
    reader.take("end")
    sound(call)
    return call


def sound(call: ToolCall) -> None:
    """Raises `FormatError` for arguments that no tool can be given: no valid text, NUL, or bottomless nesting."""
    _sound(call.arguments, 0)


def _sound(value: Any, depth: int) -> None:
    if depth > _DEEPEST:
        raise FormatError("the arguments are nested too deeply")
    if isinstance(value, str):
        if "\0" in value:
            raise FormatError("a call holds a NUL byte")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise FormatError("a call is not valid text") from None
    elif isinstance(value, dict):
        for key, item in value.items():
            _sound(key, depth + 1)
            _sound(item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            _sound(item, depth + 1)


def _written(value: Any) -> str:
    if isinstance(value, str):
        quoted = value.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + _UNSAFE.sub(lambda m: _SHORT.get(m[0], f"\\x{ord(m[0]):02x}"), quoted) + '"'
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_written(key)}: {_written(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_written, value)) + "]"
    return repr(value)


class _Reader:
    """Reads tokens of one line, from left to right."""

    def __init__(self, line: str):
        self.line = line
        self.at = 0
        self.kind, self.token = "", ""
        self._next()

    def arguments(self) -> dict[str, Any]:
        """`(key=value, …)`."""
        found: dict[str, Any] = {}
        self.sign("(")
        while self.token != ")" or self.kind != "sign":
            key = self.take("word")
            if key in found:
                raise FormatError(f"`{key}` is given twice")
            self.sign("=")
            found[key] = self.value(1)
            if not self.more(")"):
                break
        self.sign(")")
        return found

    def value(self, depth: int) -> Any:
        if depth > _DEEPEST:
            raise FormatError("the arguments are nested too deeply")
        kind, token = self.kind, self.token
        if kind == "sign" and token in "[(":
            return self._list(")" if token == "(" else "]", depth)
        if kind == "sign" and token == "{":
            return self._dict(depth)
        if kind == "word" and token not in _WORDS or kind in ("sign", "end"):
            self.wrong("a value")
        self._next()
        if kind == "word":
            return _WORDS[token]
        return _number(token) if kind == "number" else _unquoted(token)

    def _list(self, close: str, depth: int) -> list[Any]:
        found: list[Any] = []
        self._next()
        while self.token != close or self.kind != "sign":
            found.append(self.value(depth + 1))
            if not self.more(close):
                break
        self.sign(close)
        return found

    def _dict(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        self._next()
        while self.token != "}" or self.kind != "sign":
            key = _unquoted(self.take("text"))
            self.sign(":")
            found[key] = self.value(depth + 1)
            if not self.more("}"):
                break
        self.sign("}")
        return found

    def more(self, close: str) -> bool:
        """Pass a comma; False where the list ends."""
        if self.kind == "sign" and self.token == close:
            return False
        self.sign(",")
        return True

    def sign(self, wanted: str) -> None:
        if self.kind != "sign" or self.token != wanted:
            self.wrong(f"`{wanted}`")
        self._next()

    def take(self, kind: str) -> str:
        """Pass a token of this kind; the token."""
        if self.kind != kind:
            self.wrong({"word": "a name", "text": "a quoted key", "end": "nothing more"}[kind])
        token = self.token
        if kind != "end":
            self._next()
        return token

    def wrong(self, wanted: str) -> NoReturn:
        shown = self.line[self.at - len(self.token) :][:20] or "the end of the line"
        raise FormatError(f"`{self.line[:60]}` cannot be read: {wanted} should stand where `{shown}` is")

    def _next(self) -> None:
        found = _TOKEN.match(self.line, self.at)
        if not found:
            self.token = ""
            self.wrong("a name, a number, or a closed string")
        self.kind = found.lastgroup or "end"
        self.token = found[self.kind]
        self.at = found.end()


def _number(token: str) -> int | float:
    if len(token) > _DIGITS:
        raise FormatError(f"a number of {len(token)} characters is too long")
    number = float(token) if re.search(r"[.eE]", token) else int(token)
    if not math.isfinite(number):
        raise FormatError(f"{token} is too large")
    return number


def _unquoted(token: str) -> str:
    """What a quoted string says. Unknown escapes stay as they are; JSON's pairs of surrogates are joined."""
    text = _ESCAPE.sub(_unescaped, token[1:-1])
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _unescaped(found: re.Match[str]) -> str:
    code = found[1] or found[2] or found[3]
    if code is None:
        return _ESCAPED.get(found[4], found[0])
    return chr(int(code, 16)) if int(code, 16) <= 0x10FFFF else found[0]
