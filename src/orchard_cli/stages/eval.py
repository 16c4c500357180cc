"""Eval: every chosen policy attempts the held-out tasks, greedy and sampled; what is printed has an interval."""

import platform
from collections.abc import Callable
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Any

import msgspec

from .. import __version__
from .. import policy as policies
from ..domain import Domain
from ..errors import RunError
from ..eval.render import heat, html, markdown, show, show_difference
from ..eval.report import Cell, Report, report
from ..policy.policy import Policy, Sampling
from ..rollout import derive_seed
from ..task import Task
from ..trajectory.blobs import FOLDER, Blobs
from ..trajectory.reading import read
from .collect import Collection, collect
from .context import Context, Summary

STAGE_OF = {"base": "sft/base", "sft": "sft/checkpoint", "rl": "rl/checkpoint"}


def run(context: Context) -> Summary:
    """Writes eval/trajectories/<policy>-t<temperature>.jsonl.zst and eval/report.{json,md,html}."""
    config, folder = context.config, context.folder("eval")
    tasks = context.need_tasks("eval")
    wanted = chosen(context)
    cells = []
    with closing(context.open_env()) as env:
        for name, place in wanted.items():
            # the policy lives only while its cells are filled: one model in memory at a time
            policy = _open(context, name, place)
            try:

                def close(policy: Policy | None = policy) -> None:
                    env.close()
                    if policy:
                        policy.close()

                for temperature, harness in product(config.eval.temperatures, context.by_harness()):
                    cell = _collection(context, tasks, name, policy, temperature, harness)
                    collect(cell, env, context.report, concurrency=context.concurrency, close=close)
                    made = list(read(cell.path))
                    cells.append(Cell(name, temperature, made, cell.attempts * len(tasks), harness))
            finally:
                if policy:
                    policy.close()
    manifest = _manifest(context, tasks, wanted)
    made_report = report(cells, config.eval, title=f"{context.name}: {config.run}", seed=config.seed, manifest=manifest)
    _write(made_report, folder)
    return _summary(made_report, folder)


def chosen(context: Context) -> dict[str, Path | None]:
    """Name → checkpoint of each policy to measure; None for the teacher. Raises `RunError` if there is none."""
    which = context.config.eval.policy
    if which == "teacher":
        return {"teacher": None}
    places = {name: context.root / path for name, path in STAGE_OF.items()}
    if not context.config.model.made:
        places["base"] = Path(context.config.model.path)
    if which == "all":
        found = {name: p for name, p in places.items() if name == "base" or p.exists()}
        if context.config.model.made:  # made by sft, so without sft there is nothing to measure
            context.need(places["base"], "checkpoint", "sft")
        return dict(found)
    if which == "base" and not context.config.model.made:
        return {which: places[which]}
    if which in places:
        return {which: context.need(places[which], "checkpoint", which if which != "base" else "sft")}
    if not Path(which).is_dir():
        raise RunError(
            f"eval.policy={which}: no such checkpoint", hint="all, base, sft, rl, teacher, or a checkpoint folder"
        )
    return {Path(which).name: Path(which)}


def _open(context: Context, name: str, place: Path | None) -> Policy | None:
    """The policy, or None where the domain's script is asked for each task."""
    config = context.config
    if place:
        blobs, images = Blobs(context.root / FOLDER), config.harness.images
        return policies.open_policy(place, config.model, name=name, blobs=blobs, images=images)
    return None if config.teacher.kind == "scripted" else context.open_teacher()


def _collection(
    context: Context, tasks: list[Task], name: str, policy: Policy | None, temperature: float, harness: str
) -> Collection:
    config, domain = context.config, context.by_harness()[harness]
    file = "-".join(filter(None, (name, harness, f"t{temperature:g}")))
    attempts = 1 if temperature == 0 else config.eval.attempts
    return Collection(
        stage="eval",
        path=context.folder("eval") / "trajectories" / f"{file}.jsonl.zst",
        tasks=tasks,
        attempts=attempts,
        policy=_asked(context, domain, policy),
        domain=lambda _: domain,
        sampling=Sampling(
            temperature=temperature,
            max_tokens=config.harness.max_tokens,
            max_context=config.harness.max_context,
            seed=config.seed,
        ),
        redraws=config.distill.infra_retries,
        max_infra_rate=config.eval.max_infra_rate,
    )


def _asked(context: Context, domain: Domain, policy: Policy | None) -> Callable[[Task, int], Policy]:
    def ask(task: Task, slot: int) -> Policy:
        if policy:
            return policy
        seed = derive_seed(context.config.seed, "eval", task.id, slot)
        return domain.script(task, seed=seed, error_rate=context.config.teacher.error_rate)

    return ask


def _manifest(context: Context, tasks: list[Task], wanted: dict[str, Path | None]) -> dict[str, Any]:
    """What one would need to make the numbers again."""
    config = context.config
    prints = _prints({name: place for name, place in wanted.items() if place and place.is_dir()})
    return {
        "orchard": __version__,
        "python": platform.python_version(),
        "seed": config.seed,
        "tasks": f"{config.tasks.kind or context.name}, {len(tasks)} of the eval split",
        "harness": f"{config.harness.kind}, {config.harness.format}, {config.harness.max_steps} steps",
        "isolation": config.env.isolation,
        **prints,
    }


def _prints(places: dict[str, Path]) -> dict[str, str]:
    if not places:  # a script or an endpoint is measured without torch
        return {}
    from ..policy.weights import fingerprint

    return {f"checkpoint {name}": fingerprint(place)[:16] for name, place in places.items()}


def _write(made: Report, folder: Path) -> None:
    (folder / "report.json").write_bytes(msgspec.json.format(msgspec.json.encode(made)))
    (folder / "report.md").write_text(markdown(made))
    (folder / "report.html").write_text(html(made))


def _summary(made: Report, folder: Path) -> Summary:
    found = dict.fromkeys(e.name for row in made.rows for e in row.estimates)
    names = [name for name in found if "plug-in" not in name]  # a terminal is narrow; the files have all of them
    rows = []
    for row in made.rows:
        cells = {e.name: show(e) for e in row.estimates}
        rows.append(
            [row.label, heat(row.temperature), *(cells.get(n, "–") for n in names), str(row.estimates[0].tasks)]
        )
    compared = [
        [
            c.label,
            heat(c.temperature),
            show_difference(c.difference),
            f"{c.difference.p:.2g}",
        ]
        for c in made.comparisons
    ]
    head = [f"{r.label} {heat(r.temperature)} {show(r.estimates[0])}" for r in made.rows]
    tables = [
        _family_table(made),
        {"title": f"{made.title}, held-out tasks", "columns": ["policy", "sampling", *names, "tasks"], "rows": rows},
    ]
    if compared:
        columns = ["policies", "sampling", "points of pass@1", "p"]
        tables.append({"title": "paired comparisons", "columns": columns, "rows": compared})
    if any(row.harness for row in made.rows):
        tables.append(_sensitivity(made))
    return {
        "line": "pass@1: " + " · ".join(head),
        "tables": tables,
        "files": [str(folder / f"report.{kind}") for kind in ("html", "md", "json")],
    }


def _family_table(made: Report) -> dict[str, object]:
    families = sorted({name for row in made.rows for name in row.families})
    columns = ["family", *(f"{r.label}, {heat(r.temperature)}" for r in made.rows)]
    rows = [[f, *(show(r.families[f]) if f in r.families else "–" for r in made.rows)] for f in families]
    return {"title": "pass@1 by family", "columns": columns, "rows": rows}


def _sensitivity(made: Report) -> dict[str, object]:
    """pass@1 by harness and policy, and how far it moves when nothing but the harness changes."""
    columns = list(dict.fromkeys((r.policy, r.temperature) for r in made.rows))
    found = {(r.harness, r.policy, r.temperature): r.estimates[0] for r in made.rows}
    names = list(dict.fromkeys(r.harness for r in made.rows))
    rows = [[name, *(show(found[name, *column]) for column in columns)] for name in names]
    spreads = []
    for column in columns:
        values = [v for name in names if (v := found[name, *column].value) is not None]
        spreads.append(f"{100 * (max(values) - min(values)):.1f} points" if len(values) == len(names) else "–")
    head = ["harness", *(f"{policy}, {heat(t)}" for policy, t in columns)]
    return {"title": "pass@1 by harness", "columns": head, "rows": [*rows, ["largest − smallest", *spreads]]}
