"""Dates in a task's text that lie in the past: a live site can no longer do what such a task asks."""

import re
from calendar import monthrange
from collections.abc import Iterator
from datetime import date

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NAME = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>(?:19|20)\d\d)\b"
_RANGE = r"(?:\s*(?:-|–|to|until|and|through)\s*(?:[a-z]{3,9}\.?\s+)?(?P<last>\d{1,2})(?:st|nd|rd|th)?)?"
_FORMS = [
    re.compile(rf"\b{_NAME}\s+{_DAY}{_RANGE}\s*,?\s+{_YEAR}", re.IGNORECASE),  # March 3rd to 5th, 2024
    re.compile(rf"\b{_DAY}{_RANGE}\s+(?:of\s+)?{_NAME}\s*,?\s+{_YEAR}", re.IGNORECASE),  # 3-5 March 2024
    re.compile(rf"\b{_YEAR}-(?P<number>\d\d)-{_DAY}\b"),  # 2024-03-05
    re.compile(rf"\b(?P<number>\d{{1,2}})/{_DAY}/{_YEAR}"),  # 3/5/2024, as in the United States
    re.compile(rf"\b{_NAME}\s*,?\s+{_YEAR}", re.IGNORECASE),  # March 2024
]


def expired(text: str, today: date) -> Iterator[str]:
    """The dates in `text` that are over, as written; of a range its last day counts. A bare year or a date without a
    year says nothing.
    """
    taken: list[tuple[int, int]] = []
    for form in _FORMS:
        for found in form.finditer(text):
            start, end = found.span()
            if any(start < e and s < end for s, e in taken):
                continue
            taken.append((start, end))
            when = _date(found.groupdict())
            if when is not None and when < today:
                yield found[0]


def _date(parts: dict[str, str | None]) -> date | None:
    """The last day that is meant; None for a date that no calendar has."""
    year = int(parts["year"] or 0)
    named, number = parts.get("month"), parts.get("number")
    month = _MONTHS.index(named[:3].lower()) + 1 if named else int(number or 0)
    if not 1 <= month <= 12:
        return None
    last = monthrange(year, month)[1]
    day = int(parts.get("last") or parts.get("day") or last)
    return date(year, month, day) if 1 <= day <= last else None
