"""Times as people write them: days, and moments with or without an offset, in a named zone. Stored in UTC."""

import re
from datetime import UTC, date, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

from .answer import Refusal

DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
STORED = "%Y-%m-%dT%H:%MZ"


@cache
def zone(name: str) -> ZoneInfo:
    """Raises `Refusal` for a zone that nobody knows."""
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):  # a folder, a path or a NUL, one that is not there
        raise Refusal("bad_arguments", f"tz: `{name[:40]}` is not an IANA time zone") from None


def day(text: str, field: str) -> str:
    """A day, or empty. Raises `Refusal`."""
    if not text:
        return ""
    try:
        if not DAY.fullmatch(text):
            raise ValueError
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise Refusal("bad_arguments", f"{field}: `{text[:40]}` is not a day, write YYYY-MM-DD") from None


def moment(text: str, field: str, tz: str, *, closing: bool = False) -> datetime:
    """A moment in UTC. A bare day means its first minute, or with `closing` the end of it. Raises `Refusal`."""
    try:
        if DAY.fullmatch(text):
            local = datetime.fromisoformat(text) + timedelta(days=1 if closing else 0)
        else:
            local = datetime.fromisoformat(text.replace(" ", "T", 1))
    except (ValueError, OverflowError):
        hint = "write YYYY-MM-DDTHH:MM"
        raise Refusal("bad_arguments", f"{field}: `{text[:40]}` is not a time, {hint}") from None
    if not 1970 <= local.year <= 2200:
        raise Refusal("bad_arguments", f"{field}: the year {local.year} is out of range")
    if local.tzinfo is not None:
        return local.astimezone(UTC)
    aware = local.replace(tzinfo=zone(tz))
    moment = aware.astimezone(UTC)
    if moment.astimezone(zone(tz)).replace(tzinfo=None) != local:
        raise Refusal(
            "bad_arguments", f"{field}: {local:%H:%M} does not exist on {local:%Y-%m-%d} in {tz} (clocks change)"
        )
    return moment


def stored(moment: datetime) -> str:
    return moment.strftime(STORED)


def loaded(text: str) -> datetime:
    return datetime.strptime(text, STORED).replace(tzinfo=UTC)


def shown(text: str, tz: str) -> str:
    """A stored moment as `YYYY-MM-DD HH:MM` in a zone."""
    return f"{loaded(text).astimezone(zone(tz)):%Y-%m-%d %H:%M}"


def span(start: str, end: str, tz: str) -> str:
    """`2026-03-02 10:00-10:30`, or with both days where they differ."""
    first, last = shown(start, tz), shown(end, tz)
    return f"{first}-{last[11:]}" if first[:10] == last[:10] else f"{first} - {last}"
