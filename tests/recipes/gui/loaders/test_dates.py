"""Which dates of a task have passed on a given day."""

from datetime import date

import pytest
from orchard_cli.recipes.gui.loaders.dates import expired

TODAY = date(2026, 3, 10)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("on March 9, 2026", ["March 9, 2026"]),
        ("on March 10, 2026", []),
        ("on 9th of March 2026 please", ["9th of March 2026"]),
        ("from Mar. 5 to 9, 2026", ["Mar. 5 to 9, 2026"]),
        ("from March 5 to March 12, 2026", []),
        ("3-5 March 2024", ["3-5 March 2024"]),
        ("2024-01-05 and 2027-01-05", ["2024-01-05"]),
        ("by 02/28/2025", ["02/28/2025"]),
        ("in February 2026", ["February 2026"]),
        ("in March 2026", []),
        ("a film of 2019", []),
        ("on December 25th", []),
        ("may 2020 be better", ["may 2020"]),
        ("February 30, 2024", []),
        ("13/13/2024", []),
        ("", []),
    ],
)
def test_only_full_dates_that_are_over_are_told(text: str, found: list[str]) -> None:
    assert list(expired(text, TODAY)) == found


def test_the_day_decides() -> None:
    assert list(expired("on 2026-03-10", date(2026, 3, 11))) and not list(expired("on 2026-03-10", date(2026, 3, 10)))
