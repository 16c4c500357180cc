"""What one call comes to: a code and a short text; and the exception with which a service refuses."""

from typing import NamedTuple

STATUS = {
    "ok": 200,
    "bad_arguments": 400,
    "refused": 403,
    "unknown_tool": 404,
    "not_found": 404,
    "conflict": 409,
    "rate_limited": 429,
    "internal_error": 500,
    "unavailable": 503,
    "timeout": 504,
}


class Answer(NamedTuple):
    """`text` is all that an agent sees; it begins with the code unless that is `ok`."""

    code: str
    text: str

    @property
    def status(self) -> int:
        return STATUS[self.code]


class Refusal(Exception):
    """A call that cannot be done as it was asked for. The state stays as it was."""

    def __init__(self, code: str, text: str):
        super().__init__(text)
        self.answer = Answer(code, f"{code}: {text}")
