"""Completion: the declared checks against end state and audit log. The words of the agent count for questions only.

`want` lists what must be there; its weights share out the completion. `keep` lists what must have stayed as it was;
each that is broken halves the completion, which is then no pass.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .evidence import Event, Evidence
from .grade_match import fits, row_fits

Check = Mapping[str, Any]
KINDS = ("row", "no_row", "answer", "called", "not_called", "only")
MOST_ANSWER = 400  # characters; a longer answer to a question lists guesses


@dataclass(frozen=True)
class Completion:
    value: float  # in [0, 1]
    missed: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()


def completion(want: Sequence[Check], keep: Sequence[Check], evidence: Evidence) -> Completion:
    weights = [float(check.get("weight", 1)) for check in want]
    holds = [check_holds(check, evidence) for check in want]
    missed = tuple(told(c) for c, ok in zip(want, holds, strict=True) if not ok)
    broken = tuple(told(c) for c in keep if not check_holds(c, evidence))
    share = sum(w for w, ok in zip(weights, holds, strict=True) if ok) / (sum(weights) or 1.0)
    return Completion(share * 0.5 ** len(broken), missed, broken)


def check_holds(check: Check, evidence: Evidence) -> bool:
    kind = next(k for k in KINDS if k in check)
    where = check.get("where", {})
    if kind == "row":
        found = sum(row_fits(row, where) for row in evidence.rows(check["row"]))
        return found == check["count"] if "count" in check else found >= 1
    if kind == "no_row":
        return not any(row_fits(row, where) for row in evidence.rows(check["no_row"]))
    if kind == "answer":
        return 0 < len(evidence.answer) <= check.get("most", MOST_ANSWER) and fits(evidence.answer, check["answer"])
    if kind == "called":
        return any(row_fits(event.args, where) for event in evidence.calls(check["called"]))
    if kind == "not_called":
        return not any(row_fits(event.args, where) for event in evidence.calls(check["not_called"]))
    return not surplus(check["only"], evidence)


def surplus(allowed: Sequence[Check], evidence: Evidence) -> list[Event]:
    """Effects that nothing in `allowed` accounts for. An entry is {op, where?, count?}; count 0: any number."""
    left = [int(entry.get("count", 1)) or 10**9 for entry in allowed]
    extra = []
    for event in evidence.effects():
        for i, entry in enumerate(allowed):
            if left[i] and entry["op"] == event.op and row_fits(event.args, entry.get("where", {})):
                left[i] -= 1
                break
        else:
            extra.append(event)
    return extra


def told(check: Check) -> str:
    """A check in one line, for the record."""
    kind = next(k for k in KINDS if k in check)
    where = ", ".join(f"{k}: {v}" for k, v in check.get("where", {}).items())
    return f"{kind} {check[kind]}{f' where {where}' if where else ''}"[:200]
