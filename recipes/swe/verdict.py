"""From what the tests did to whether the task is solved.

Rules (formats reference, 2.5): a FAIL_TO_PASS test must pass or fail as it is expected to (xfail); a PASS_TO_PASS
test may also be skipped; a test that is not reported failed. Solved means that all of both lists hold.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

Outcomes = Mapping[str, str]  # test id → passed | failed | error | skipped | xfailed | xpassed

ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
PYTEST_LINE = re.compile(r"^(PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS) +(\S+)", re.MULTILINE)
DJANGO_LINE = re.compile(r"^(\S+ \([\w.]+\)).* \.\.\. (ok|FAIL|ERROR|skipped|expected failure)", re.MULTILINE)
SYMPY_LINE = re.compile(r"^(\w+) (ok|F|E|s|f)\b", re.MULTILINE)
START, END = ">>>>> Start Test Output", ">>>>> End Test Output"

_WORDS = {
    "PASSED": "passed",
    "FAILED": "failed",
    "ERROR": "error",
    "SKIPPED": "skipped",
    "XFAIL": "xfailed",
    "XPASS": "xpassed",
    "ok": "passed",
    "FAIL": "failed",
    "skipped": "skipped",
    "expected failure": "xfailed",
    "F": "failed",
    "E": "error",
    "s": "skipped",
    "f": "xfailed",
}
_LOGS = {"pytest": PYTEST_LINE, "django": DJANGO_LINE, "sympy": SYMPY_LINE}


@dataclass(frozen=True)
class Verdict:
    """How the two lists fared; `failed` holds the ids that did not do what they must."""

    fail_to_pass: tuple[int, int]  # passed, of
    pass_to_pass: tuple[int, int]
    failed: tuple[str, ...]

    @property
    def solved(self) -> bool:
        return not self.failed

    @property
    def nothing_passed(self) -> bool:
        return self.fail_to_pass[0] + self.pass_to_pass[0] == 0


def judge(outcomes: Outcomes, fail_to_pass: Sequence[str], pass_to_pass: Sequence[str]) -> Verdict:
    failed_f2p = [t for t in fail_to_pass if not _holds(outcomes, t, {"passed", "xfailed"})]
    failed_p2p = [t for t in pass_to_pass if not _holds(outcomes, t, {"passed", "xfailed", "skipped"})]
    return Verdict(
        (len(fail_to_pass) - len(failed_f2p), len(fail_to_pass)),
        (len(pass_to_pass) - len(failed_p2p), len(pass_to_pass)),
        (*failed_f2p, *failed_p2p),
    )


def from_report(data: bytes, word: str) -> Outcomes:
    """What a report file says; nothing if it is not one, or not ours. With a `word`, the plugin's signed form."""
    try:
        report: Any = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return {}
    if word:
        report = report.get("tests") if isinstance(report, dict) and report.get("word") == word else None
    if not isinstance(report, dict):
        return {}
    return {k: v for k, v in report.items() if isinstance(v, str)}


def from_log(text: str, log: str) -> Outcomes:
    """Outcomes from a test log. `log`: pytest (`-rA`), django or sympy; between SWE-bench's markers if it has any."""
    text = ANSI.sub("", text)
    if START in text:
        text = text.split(START, 1)[1].split(END, 1)[0]
    found: dict[str, str] = {}
    for match in _LOGS[log].finditer(text):
        word, name = (match[1], match[2]) if log == "pytest" else (match[2], match[1])
        if found.get(name) not in ("failed", "error"):
            found[name] = _WORDS[word]
    return found


def _holds(outcomes: Outcomes, test: str, good: set[str]) -> bool:
    """True if `test` did what it must. An id that its list cut off inside `[` stands for all that begin so."""
    if test in outcomes:
        return outcomes[test] in good
    if "[" not in test or test.endswith("]"):
        return False
    found = [outcome for name, outcome in outcomes.items() if name.startswith(test)]
    return bool(found) and all(outcome in good for outcome in found)
