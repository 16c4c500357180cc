"""`orchard traj ls|show|stats|verify|compact`: look into files of trajectories."""

import re
from collections import Counter
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..console import Console
from ..errors import ConfigError, DataError, disk_error
from ..outcome import Outcome

if TYPE_CHECKING:
    from ..trajectory import Trajectory
    from ..trajectory.stats import TrajStats

app = typer.Typer(help="Look into trajectories.", no_args_is_help=True, pretty_exceptions_enable=False)

Place = Annotated[Path, typer.Argument(help="A trajectory file, or a folder in which to look for them.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
SUFFIXES = (".jsonl.zst", ".jsonl")


@app.command("ls")
def ls(
    place: Place,
    outcome: Annotated[Outcome | None, typer.Option(help="Only this outcome.")] = None,
    limit: Annotated[int, typer.Option(min=0, help="At most so many rows; 0: all.")] = 50,
    json: Json = False,
) -> None:
    """List trajectories, one row each."""
    from ..trajectory.reading import read

    console, total = Console(json_only=json), 0
    columns = ("id", "family", "policy", "harness", "outcome", "stop", "steps", "reward")
    rows: list[tuple[Any, ...]] = []
    for path in files(place):
        for t in read(path):
            if outcome and t.outcome != outcome:
                continue
            total += 1
            if not limit or len(rows) < limit:
                rows.append((t.id, t.family, t.policy, t.harness, t.outcome.value, t.stop, len(t.steps), t.reward))
    if json:
        console.data([dict(zip(columns, row, strict=True)) for row in rows])
        return
    shown = [["–" if value is None else str(value) for value in row] for row in rows]
    console.table(f"{total} trajectories", columns, shown)
    if total > len(rows):
        console.note(f"{total - len(rows)} more; --limit 0 shows all")


@app.command("show")
def show(
    place: Place,
    id: Annotated[str, typer.Argument(help="A trajectory's id, as `ls` prints it, or its first characters.")] = "",
    html: Annotated[bool, typer.Option("--html", help="Write one page with pictures, clicks and the verdict.")] = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The page (--html); `-` for stdout.")] = None,
    json: Json = False,
) -> None:
    """Print one trajectory for reading: what was said, done and seen, how it ended. The first one by default."""
    from ..trajectory.render import render

    if html and json:
        raise ConfigError("--html and --json exclude each other")
    if out and not html:
        raise ConfigError("--out names the page that --html writes", hint="orchard traj show --html FILE -o out.html")
    console = Console(json_only=json)
    path, t = _one(place, id)
    if json:
        import msgspec

        console.data(msgspec.to_builtins(t))
    elif html:
        _page(console, path, t, out)
    else:
        console.text(render(t))


def _one(place: Path, id: str) -> "tuple[Path, Trajectory]":
    from ..trajectory.reading import read

    for path in files(place):
        for t in read(path):
            if t.id.startswith(id):
                return path, t
    raise DataError(f"no trajectory in {place} has an id that starts with `{id}`", hint=f"orchard traj ls {place}")


def _page(console: Console, path: Path, t: "Trajectory", out: Path | None) -> None:
    from ..trajectory.blobs import Blobs
    from ..trajectory.html import html

    page = html(t, Blobs.beside(path).get)
    if out == Path("-"):
        console.text(page)
        return
    target = out or Path(re.sub(r"[^A-Za-z0-9_-]+", "-", t.id)[:80] + ".html")
    try:
        target.write_text(page, "utf-8", errors="replace")
    except OSError as error:
        raise disk_error(error, target, "written") from error
    console.say(f"→ {target}")


@app.command("stats")
def stats_(place: Place, json: Json = False) -> None:
    """Count outcomes, stops, faults, steps, and where every token went."""
    from ..trajectory.stats import stats

    console = Console(json_only=json)
    found = [stats(path) for path in files(place)]
    if json:
        console.data([_plain(s) for s in found])
        return
    for s in found:
        rows = [("trajectories", f"{s.records:,}"), ("outcomes", _counts(s.outcomes)), ("stops", _counts(s.stops))]
        rows += [("steps (p50, p90, max)", ", ".join(str(v) for v in s.step_quantiles().values()))]
        if s.faults:
            rows.append(("faults", _counts(s.faults)))
        rows += _tokens(s)
        if s.unreadable:
            rows.append(("not readable", f"{_counts(s.unreadable)}; first: {s.first_unreadable}"))
        console.table(s.file, ("", ""), rows)


@app.command("verify")
def verify_(place: Place, json: Json = False) -> None:
    """Check every record; name file, line and fault of what is wrong. Exit 1 if anything is."""
    from ..trajectory.verify import verify

    console = Console(json_only=json)
    reports = [verify(path) for path in files(place)]
    if json:
        console.data([asdict(report) for report in reports])
    for report in reports:
        state = "ok" if report.ok else f"{len(report.problems) + report.more} problems"
        console.say(f"{report.file}: {report.good} of {report.records} records good, {state}")
        for problem in report.problems:
            console.say(f"  {problem}")
        if report.more:
            console.say(f"  … and {report.more} more")
    if not all(report.ok for report in reports):
        raise typer.Exit(1)


@app.command("compact")
def compact_(
    place: Place,
    out: Annotated[Path | None, typer.Option(help="The Parquet file; beside the other by default.")] = None,
    json: Json = False,
) -> None:
    """Write the training view: one Parquet file for each file, one row for each ledger."""
    from ..trajectory.compact import compact

    console, found = Console(json_only=json), files(place)
    if out and len(found) > 1:
        raise ConfigError(f"{place} has {len(found)} files of trajectories, --out names one", hint="leave --out away")
    targets = [out or file.with_name(file.name.split(".")[0] + ".parquet") for file in found]
    for file, target in zip(found, targets, strict=True):
        compact(file, target)
        console.say(f"→ {target}")
    if json:
        console.data({"parquet": [str(target) for target in targets]})


def files(place: Path) -> list[Path]:
    """The trajectory files at `place`. Raises `DataError` if there are none."""
    if place.is_file():
        return [place]
    found = [p for p in sorted(place.rglob("*.jsonl*")) if _holds_trajectories(p)]
    if not found:
        raise DataError(f"no trajectories in {place}", hint="`orchard runs ls` lists the runs; their stages write them")
    return found


def _holds_trajectories(path: Path) -> bool:
    return path.name.endswith(SUFFIXES) and path.name.startswith("trajectories") or path.parent.name == "trajectories"


def _counts(counts: Counter[str]) -> str:
    return ", ".join(f"{n:,} {name}" for name, n in counts.most_common())


def _tokens(s: "TrajStats") -> list[tuple[str, str]]:
    u, t = s.usage, s.tokens
    used = []
    if u.calls:
        cost = f", {u.cost_usd:,.4f} USD" if u.cost_usd else ""
        read = f"{u.prompt_tokens:,} prompt + {u.completion_tokens:,} completion tokens"
        used = [("usage", f"{u.calls:,} calls, {read}{cost}")]
    if not t.total:
        return [*used, ("tokens", "no ids: these policies say what they used, not which tokens")]
    identity = f"{t.sampled:,} sampled = {t.trainable:,} trainable + {t.masked.total():,} masked"
    balanced = "" if t.balanced else "  NOT BALANCED"
    return [*used, ("tokens", identity + balanced), ("context tokens", _counts(t.context))]


def _plain(s: Any) -> dict[str, Any]:
    """Counters and records as plain JSON values."""
    import msgspec

    plain: dict[str, Any] = {}
    for item in fields(s):
        value = getattr(s, item.name)
        plain[item.name] = _plain(value) if is_dataclass(value) else msgspec.to_builtins(value, str_keys=True)
    return plain | ({"step_quantiles": s.step_quantiles()} if hasattr(s, "step_quantiles") else {})
