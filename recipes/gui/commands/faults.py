"""What attempts were lost to, by site: captchas, refusals, navigation, and what was ours."""

from typing import Any

from orchard_cli.trajectory import Trajectory
from orchard_cli.trajectory.reading import read

from ..attempts import files, tasks
from ..recipe import COLUMNS, cells, fault_report

READS = ("tasks", "domain")


def run(context: Any) -> dict[str, Any]:
    """A row for each site of all attempts of the run; where tasks have no site, for each family."""
    known = tasks(context)

    def site(t: Trajectory) -> str:
        task = known.get(t.task_id)
        return str(task.data.get("site") or t.family) if task else t.family

    found = fault_report((t for path in files(context) for t in read(path)), site)
    lost, made = sum(r.lost for r in found), sum(r.attempts for r in found)
    return {
        "ok": True,
        "line": f"{lost} of {made} attempts were lost to faults",
        "tables": [
            {"title": "faults by site", "columns": list(COLUMNS), "rows": [cells(r) for r in found]},
        ],
        "sites": [
            {"site": r.site, "attempts": r.attempts, "solved": r.solved, "faults": dict(r.faults)} for r in found
        ],
    }
