"""Which attempts were lost to sites that refuse, break and change, and which to us (paper, section 5.4)."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from orchard_cli.outcome import Outcome
from orchard_cli.trajectory import Trajectory

SiteOf = Callable[[Trajectory], str]
Cause = str  # captcha | block | navigation | other
CAUSES = ("captcha", "block", "navigation", "other")

_NAVIGATION = (
    *("site_down", "navigation", "navigation_timeout", "redirect_loop", "certificate", "http_error", "download"),
    "aborted",
)
# the site's own faults by their code (`faults.py`); every other fault is the browser's or the model's endpoint's
SITE_FAULTS: Mapping[str, Cause] = {
    "site.captcha": "captcha",
    "site.blocked": "block",
    "site.http_auth": "block",
    **dict.fromkeys((f"site.{code}" for code in (*_NAVIGATION, "episode")), "navigation"),
}


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


COLUMNS = ("site", "attempts", "solved", *CAUSES, "lost")


def cells(row: SiteFaults) -> list[str]:
    """One site's row, with the share of attempts that were lost."""
    lost = f"{100 * row.lost / row.attempts:.1f} %"
    return [row.site, str(row.attempts), str(row.solved), *(str(row.faults.get(c, 0)) for c in CAUSES), lost]
