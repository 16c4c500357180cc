"""`orchard runs ls|show`: what has been run, and what came of it."""

import json as jsonlib
from pathlib import Path
from typing import Annotated, Any

import typer

from ..console import Console
from ..errors import RunError
from ..runs.rundir import RunDir

app = typer.Typer(help="Look at runs.", no_args_is_help=True, pretty_exceptions_enable=False)
ORDER = ("distill", "credit", "sft", "rl", "eval")

Out = Annotated[Path, typer.Option(help="Folder of all runs.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]


@app.command("ls")
def ls(out: Out = Path("runs"), json: Json = False) -> None:
    """List the runs, with the stages that are done."""
    console = Console(json_only=json)
    rows: list[dict[str, Any]] = []
    for config in sorted(out.glob("*/*/config.yaml")):
        root = config.parent
        done = [stage for stage in ORDER if (root / stage / "done.json").exists()]
        rows.append({"run": root.name, "domain": root.parent.name, "done": done, "last": _last(root)})
    if json:
        console.data(rows)
        return
    if not rows:
        console.note(f"no runs in {out}/")
    columns = ("run", "domain", "done", "last event")
    console.table("", columns, [(r["run"], r["domain"], " ".join(r["done"]), r["last"]) for r in rows])


@app.command("show")
def show(
    run: Annotated[str, typer.Argument(help="A run's folder, `domain/name`, or its name.")],
    out: Out = Path("runs"),
    json: Json = False,
) -> None:
    """Show each stage of a run: its summary, its time, its tables."""
    console = Console(json_only=json)
    root = find(run, out)
    made = RunDir(root)
    stages = {stage: record for stage in ORDER if (record := made.done(stage))}
    if json:
        console.data({"run": str(root), "stages": stages})
        return
    rows = [
        (name, str(record.get("finished", "")), _seconds(record), str(record["summary"].get("line", "")))
        for name, record in stages.items()
    ]
    console.table(str(root), ("stage", "finished (UTC)", "seconds", "what came of it"), rows)
    for record in stages.values():
        for table in record["summary"].get("tables", ()):
            console.table(table["title"], table["columns"], table["rows"])


def find(run: str, out: Path) -> Path:
    """The folder of a run given as a path, as `domain/name` or as a name that only one domain has."""
    for place in (Path(run), out / run):
        if (place / "config.yaml").exists():
            return place
    found = [p.parent for p in out.glob(f"*/{Path(run).name}/config.yaml")]
    if len(found) == 1:
        return found[0]
    if found:
        raise RunError(f"several runs are called `{run}`", hint=f"name one: {', '.join(map(str, found))}")
    raise RunError(f"there is no run `{run}` in {out}", hint="`orchard runs ls` lists what there is")


def _seconds(record: dict[str, Any]) -> str:
    return f"{record['summary'].get('wall_s', 0):.0f}"


def _last(root: Path) -> str:
    try:
        lines = (root / "events.jsonl").read_text().splitlines()
        event = jsonlib.loads(lines[-1])
    except (OSError, ValueError, IndexError):
        return ""
    return f"{event['time']} {event['stage']} {event['event']}"
