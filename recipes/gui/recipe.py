"""Pieces of the published recipe for browser agents (paper, sections 5.3 and 5.4)."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from orchard_cli.outcome import Outcome
from orchard_cli.trajectory import Trajectory

SiteOf = Callable[[Trajectory], str]
Cause = str  # captcha | block | navigation | other
CAUSES = ("captcha", "block", "navigation", "other")
CURRICULUM = ((0, 15), (90, 30))  # from this update on: turns of one attempt

_NAVIGATION = ("site_down", "navigation", "navigation_timeout", "redirect_loop", "http_error", "download", "aborted")
# the site's own faults by their code (`faults.py`); every other fault is the browser's or the model's endpoint's
SITE_FAULTS: Mapping[str, Cause] = {
    "site.captcha": "captcha",
    "site.blocked": "block",
    "site.http_auth": "block",
    **dict.fromkeys((f"site.{code}" for code in (*_NAVIGATION, "episode")), "navigation"),
}


def shortest_success(trajectories: Iterable[Trajectory]) -> list[Trajectory]:
    """The solved attempt with the fewest steps at each task, in order of the tasks; of equals the one that needed the
    fewest tokens, then the first.
    """
    best: dict[str, Trajectory] = {}
    for t in trajectories:
        if t.outcome is Outcome.SOLVED and (t.task_id not in best or _length(t) < _length(best[t.task_id])):
            best[t.task_id] = t
    return list(best.values())


def _length(t: Trajectory) -> tuple[int, int]:
    return len(t.steps), t.usage.completion_tokens


def cap_per_site(trajectories: Iterable[Trajectory], site: SiteOf, most: int = 20) -> list[Trajectory]:
    """At most so many of each site, the shortest of them, in the order they came."""
    found = list(trajectories)
    places: dict[str, list[int]] = {}
    for at, t in enumerate(found):
        places.setdefault(site(t), []).append(at)
    kept = {at for ats in places.values() for at in sorted(ats, key=lambda at: _length(found[at]))[:most]}
    return [t for at, t in enumerate(found) if at in kept]


@dataclass(frozen=True)
class SiteFaults:
    """One site's attempts. `faults` counts those that ended in an infrastructure fault, by cause."""

    site: str
    attempts: int
    solved: int
    faults: Mapping[Cause, int] = field(default_factory=dict)

    @property
    def lost(self) -> int:
        return sum(self.faults.values())


def fault_report(trajectories: Iterable[Trajectory], site: SiteOf) -> list[SiteFaults]:
    """Sites with their faults, those that lost the largest share first. Faults of the judge are not the site's."""
    attempts: Counter[str] = Counter()
    solved: Counter[str] = Counter()
    faults: dict[str, Counter[Cause]] = {}
    for t in trajectories:
        where = site(t)
        attempts[where] += 1
        solved[where] += t.outcome is Outcome.SOLVED
        if t.outcome is Outcome.INFRA_ERROR:
            faults.setdefault(where, Counter())[cause(t)] += 1
    rows = [SiteFaults(s, n, solved[s], dict(faults.get(s, {}))) for s, n in attempts.items()]
    return sorted(rows, key=lambda row: (-row.lost / row.attempts, -row.attempts, row.site))


def cause(t: Trajectory) -> Cause:
    """What a lost attempt was lost to, by the code of its fault."""
    return SITE_FAULTS.get(t.fault.code, "other") if t.fault else "other"


def fault_table(rows: Sequence[SiteFaults]) -> str:
    """A Markdown table, one site a row."""
    head = ["site", "attempts", "solved", *CAUSES, "lost"]
    lines = [head, ["---"] * len(head)]
    for row in rows:
        cells = [row.site.replace("|", "\\|"), str(row.attempts), str(row.solved)]
        share = f"{100 * row.lost / row.attempts:.1f} %"
        lines.append([*cells, *(str(row.faults.get(c, 0)) for c in CAUSES), share])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def turn_limit(update: int, schedule: Sequence[tuple[int, int]] = CURRICULUM) -> int:
    """Turns that an attempt may have at an update (from 0). schedule: (first update, turns), in rising order."""
    if not schedule or schedule[0][0] != 0 or any(a[0] >= b[0] for a, b in zip(schedule, schedule[1:], strict=False)):
        raise ValueError("a turn curriculum begins with update 0 and rises")
    return [turns for first, turns in schedule if first <= max(update, 0)][-1]
