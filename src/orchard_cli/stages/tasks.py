"""The task sets as a table: what a domain offers with these settings, and which lines of a file were bad."""

from ..task import Task
from .context import Context, Summary


def run(context: Context) -> Summary:
    """Counts by family and split; every task with its id; the problems of a task file."""
    splits = {split: context.tasks(split) for split in ("train", "eval")}
    everything = [t for tasks in splits.values() for t in tasks]
    problems = [str(p) for p in getattr(context.domain, "problems", ())]
    for warning in dict.fromkeys((*problems, *getattr(context.domain, "notes", ()))):
        context.report.note(f"warning: {warning}")
    families = sorted({t.family for t in everything})
    rows = [[f, *(str(sum(t.family == f for t in splits[s])) for s in splits)] for f in families]
    rows.append(["all", *(str(len(splits[s])) for s in splits)])
    return {
        "ok": bool(everything),
        "line": f"{len(everything)} tasks, {len(problems)} bad lines",
        "tables": [
            {"title": "tasks", "columns": ["family", "train", "eval"], "rows": rows},
            {"title": "the first few", "columns": ["id", "split", "prompt"], "rows": _first(everything)},
        ],
        "tasks": [{"id": t.id, "split": t.split, "family": t.family, "prompt": t.prompt} for t in everything],
        "problems": problems,
    }


def _first(tasks: list[Task]) -> list[list[str]]:
    return [[t.id, t.split, t.prompt.strip().split("\n")[0][:90]] for t in tasks[:5]]
