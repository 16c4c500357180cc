"""Which tasks of a benchmark or a pool are used, and why the others are not."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from orchard_cli.task import Task

from .dates import expired


@dataclass(frozen=True)
class Filter:
    """Empty and 0: no condition. `today`: drop tasks whose dates have passed. `least_per_site`, `most_per_site`: how
    many tasks a site must and may have, counted after the other conditions.
    """

    sites: tuple[str, ...] = ()
    not_sites: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()
    most_words: int = 0
    today: date | None = None
    least_per_site: int = 0
    most_per_site: int = 0


def choose(tasks: Sequence[Task], by: Filter) -> tuple[list[Task], Counter[str]]:
    """(tasks that fit, in order; how many were left out by reason). Every task is in one of the two."""
    left_out: Counter[str] = Counter()
    fit = []
    for task in tasks:
        why = _unfit(task, by)
        if why:
            left_out[why] += 1
        else:
            fit.append(task)
    per_site = Counter(_site(t) for t in fit)
    kept: list[Task] = []
    taken: Counter[str] = Counter()
    for task in fit:
        site = _site(task)
        if per_site[site] < by.least_per_site:
            left_out["rare_site"] += 1
        elif by.most_per_site and taken[site] >= by.most_per_site:
            left_out["site_full"] += 1
        else:
            taken[site] += 1
            kept.append(task)
    return kept, left_out


def _unfit(task: Task, by: Filter) -> str:
    site, level = _site(task), str(task.data.get("level", ""))
    if by.sites and not _among(site, by.sites) or _among(site, by.not_sites):
        return "site"
    if by.levels and level not in by.levels:
        return "level"
    if by.most_words and len(task.prompt.split()) > by.most_words:
        return "long"
    if by.today and any(expired(task.prompt, by.today)):
        return "expired"
    return ""


def _among(site: str, sites: tuple[str, ...]) -> bool:
    """Whether a site is one of those named, or below one of them."""
    return any(site == s or site.endswith(f".{s}") for s in sites)


def _site(task: Task) -> str:
    return str(task.data.get("site", ""))
