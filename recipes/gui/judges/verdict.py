"""What a judge says, and how it is read from its words: None where it said nothing that can be taken for a verdict."""

import json
import re
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from orchard_cli.trajectory import Usage

from .evidence import Evidence

_NOT = re.compile(r"\b(?:NOT[\s_*\-]+(?:A[\s_*]+)?SUCCESS|UNSUCCESS)")
_STATUS = re.compile(r"status\W{0,8}\b(success|failure)\b", re.IGNORECASE)
_SCORE = re.compile(r"score\W{0,8}([1-5])(?!\d|\.\d)", re.IGNORECASE)
_OBJECT = re.compile(r"\{[^{}]*\}")


class Verdict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """success: whether the judge takes the task for done. thought: its reasons in its words. usage: what it cost."""

    judge: str
    success: bool
    thought: str = ""
    usage: Usage = Usage()
    details: Mapping[str, Any] = {}


class Judge(Protocol):
    name: str

    def judge(self, seen: Evidence) -> Verdict:
        """Whether the task was done. Raises `GradeError` where that cannot be told; it is never taken for a no."""
        ...


def success_word(text: str) -> bool | None:
    """WebVoyager's rule: `NOT SUCCESS` anywhere is a failure, else `SUCCESS` anywhere is a success, in capitals.

    A text without either in capitals is read again in its last line alone, capitals or not.
    """
    for read in (text, (text.strip().splitlines() or [""])[-1].upper()):
        if _NOT.search(read):
            return False
        if re.search(r"\bSUCCESS", read):
            return True
        if re.search(r"\bFAIL", read) and read is not text:
            return False
    return None


def status(text: str) -> bool | None:
    """`Status: "success"` or `"failure"`; of several the last, which is the judge's own."""
    found = _STATUS.findall(text)
    return found[-1].lower() == "success" if found else None


def score(text: str) -> int | None:
    """`Score: 1` to `5`; of several the last."""
    found = _SCORE.findall(text)
    return int(found[-1]) if found else None


def json_verdict(text: str) -> tuple[bool, str] | None:
    """(verdict, thought) of `{"thought": …, "verdict": …}`; the verdict is a truth value, or words as above."""
    for written in reversed(_OBJECT.findall(text)):
        try:
            said = json.loads(written)
        except ValueError:
            continue
        found = said.get("verdict") if isinstance(said, dict) else None
        verdict = found if isinstance(found, bool) else success_word(str(found).upper()) if found else None
        if verdict is not None:
            return verdict, str(said.get("thought", ""))
    return None


def key_points(text: str) -> list[str] | None:
    """The numbered or dashed lines after `Key points:`, or of the whole text; None if there are none."""
    after = re.split(r"key points\W*:?", text, maxsplit=1, flags=re.IGNORECASE)[-1]
    lines = [re.sub(r"^\s*(?:\d+[.)]|[-*•])\s*", "", line).strip() for line in after.splitlines() if _listed(line)]
    return [line for line in lines if line] or None


def _listed(line: str) -> bool:
    return re.match(r"\s*(?:\d+[.)]|[-*•])\s*\S", line) is not None
