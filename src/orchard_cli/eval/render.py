"""A report as Markdown and as one self-contained HTML page. A refused number is shown as its reason, never as 0."""

from importlib.resources import files

import jinja2

from .metrics import Difference, Estimate
from .report import Report, Row


def markdown(report: Report) -> str:
    """Tables: results, families, outcomes, comparisons, and how to read them."""
    parts = [f"# {report.title}", _results(report)]
    if any(len(row.families) > 1 for row in report.rows):
        parts.append("## pass@1 by family\n\n" + _families(report))
    if report.comparisons:
        parts.append("## Paired comparisons\n\n" + _comparisons(report))
    parts.append("## How attempts ended\n\n" + _outcomes(report))
    parts.append(_notes(report))
    if report.manifest:
        lines = [f"- {key}: `{value}`" for key, value in report.manifest.items()]
        parts.append("## How this came about\n\n" + "\n".join(lines))
    return "\n\n".join(parts) + "\n"


def html(report: Report) -> str:
    """The same, with a bar for each interval. No address outside the file; everything from outside is escaped."""
    source = files(__package__).joinpath("templates/report.html").read_text("utf-8")
    template = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=True).from_string(source)
    return template.render(
        report=report, show=show, show_difference=show_difference, heat=heat, names=_names(report), family=family
    )


def show(e: Estimate) -> str:
    """`61.7 % [56.1, 67.0]`, or why there is no number."""
    if e.value is None:
        return f"not measured: {e.refused}"
    return f"{100 * e.value:.1f} % [{100 * e.low:.1f}, {100 * e.high:.1f}]"


def show_difference(d: Difference) -> str:
    if d.value is None:
        return f"not measured: {d.refused}"
    return f"{100 * d.value:+.1f} [{100 * d.low:+.1f}, {100 * d.high:+.1f}]"


def heat(temperature: float) -> str:
    return "greedy" if temperature == 0 else f"T = {temperature:g}"


def family(row: Row, name: str) -> str:
    return show(row.families[name]) if name in row.families else "–"


def _names(report: Report) -> list[str]:
    return sorted({name for row in report.rows for name in row.families})


def _results(report: Report) -> str:
    names = list(dict.fromkeys(e.name for row in report.rows for e in row.estimates))
    lines = []
    for row in report.rows:
        found = {e.name: show(e) for e in row.estimates}
        one = row.estimates[0]
        cells = [row.label, heat(row.temperature), *(found.get(name, "–") for name in names)]
        lines.append([*cells, str(one.tasks), str(one.attempts), str(one.unmeasured)])
    return _table(["policy", "sampling", *names, "tasks", "attempts", "not measured"], lines)


def _families(report: Report) -> str:
    head = ["family", *(f"{row.label}, {heat(row.temperature)}" for row in report.rows)]
    return _table(head, [[name, *(family(row, name) for row in report.rows)] for name in _names(report)])


def _comparisons(report: Report) -> str:
    lines = []
    for c in report.comparisons:
        d = c.difference
        sides = f"{d.better} / {d.worse} / {d.equal}"
        lines.append([c.label, heat(c.temperature), show_difference(d), sides, f"{d.p:.2g}"])
    return _table(["policies", "sampling", "points of pass@1", "better / worse / equal tasks", "p"], lines)


def _outcomes(report: Report) -> str:
    names = list(dict.fromkeys(name for row in report.rows for name in row.outcomes))
    lines = [
        [row.label, heat(row.temperature), *(str(row.outcomes.get(n, 0)) for n in names), f"{row.steps_mean:.1f}"]
        for row in report.rows
    ]
    return _table(["policy", "sampling", *names, "steps"], lines)


def _notes(report: Report) -> str:
    every = [e for row in report.rows for e in row.estimates]
    how = sorted({e.interval for e in every if e.interval})
    level = f"{every[0].confidence:.0%}" if every else "no"
    return (
        f"Intervals: {level}, {' or '.join(how) or 'none'}. pass@k: at least one of k attempts is solved; pass^k: all "
        "are; both unbiased, or `plug-in`: from each task's rate c/n, as 1 − (1 − c/n)^k and (c/n)^k. Means over "
        "tasks. Comparisons: paired bootstrap over tasks, exact sign test."
    )


def _table(head: list[str], lines: list[list[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in row) + " |" for row in rows)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
