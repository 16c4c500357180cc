"""Runs stages on this machine: compose, take the run's folder, skip what is unchanged, run the rest in order."""

import ctypes
import gc
import importlib
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from .. import domains, schema
from .. import policy as policies
from ..compose import Composed, compose
from ..console import Console
from ..domain import Domain
from ..errors import ConfigError
from ..policy import sight
from ..runs.rundir import RunDir
from ..stages.context import READS, Context
from ..stages.credit import refuse_unforkable
from ..trajectory.blobs import FOLDER, Blobs
from . import notes

STAGES = {
    "distill": ("distill",),
    "credit": ("credit",),
    "sft": ("sft",),
    "rl": ("rl",),
    "eval": ("eval",),
    "train": ("credit", "sft", "rl"),
    "run": ("distill", "credit", "sft", "rl", "eval"),
}
ORACLE_STEPS = 50  # for `check`: large patches are written in several commands


def launch(domain: str, stage: str, words: Sequence[str], *, json: bool = False, fresh: bool = False) -> None:
    """Run a stage, or the stages that it stands for; print what came of it."""
    console = Console(json_only=json)
    composed = compose(domain, words)
    for note in notes.unread(composed, STAGES[stage]):
        console.note(note)
    if {"sft", "rl"} & set(STAGES[stage]):  # said before hours are spent on the stages in front
        policies.need_torch()
    run = RunDir.of(domain, composed.config)
    context = make_context(composed, run, console)
    if "sft" in STAGES[stage] and composed.config.model.kind == "tiny" and getattr(context.domain, "pictures", False):
        raise sight.unseen("model=tiny")
    if stage == "run" and composed.config.credit.kind == "branch":  # before a teacher is paid for attempts
        refuse_unforkable([(d, t) for d in context.by_harness().values() for t in context.tasks("train")[:1]])
    summaries: dict[str, Any] = {}
    with closing(context), run.lock():
        for name in STAGES[stage]:
            summaries[name] = _run_stage(name, context, run, console, fresh=fresh)
            if name != STAGES[stage][-1]:  # the last one's summary follows whole
                console.note(f"{name}: {summaries[name]['line']}")
    if json:
        console.data({"run": str(run.root), "stages": summaries})
    else:
        _show(name, summaries[name], console)


def make_context(composed: Composed, run: RunDir, console: Console, *, blobs: Path | None = None) -> Context:
    """Everything a stage needs, with the domain built from its slices of the configuration.

    blobs: where a domain that shows pictures puts them; in the run by default.
    """
    config, module = composed.config, domains.load(composed.domain)

    def make(harness: schema.Harness) -> Domain:
        built: Domain = module.Domain(config.domain, config.tasks, harness, config.seed)
        if hasattr(built, "blobs"):
            built.blobs = Blobs(blobs or run.root / FOLDER)
        return built

    others = {name: make(harness) for name, harness in config.harnesses.items()}
    first = next(iter(others.values()), None) or make(config.harness)
    return Context(composed.domain, config, first, run.root, console, others)


def _run_stage(name: str, context: Context, run: RunDir, console: Console, *, fresh: bool) -> dict[str, Any]:
    if not run.begin(name, context.config, fresh=fresh):
        summary = dict(run.done(name)["summary"])
        console.note(f"{name}: unchanged, not run again")
        return summary
    notes.save_config(context.config, run.root)
    started = time.monotonic()
    try:
        summary = importlib.import_module(f"orchard_cli.stages.{name}").run(context)
    except BaseException as error:
        with suppress(OSError):  # where the disk is full, that is the news
            run.event(name, "interrupted" if isinstance(error, KeyboardInterrupt) else "failed", error=str(error))
        if isinstance(error, ConfigError):
            run.refused(name)
        raise
    _give_back_memory()
    summary["wall_s"] = round(time.monotonic() - started, 1)
    run.finish(name, context.config, summary)
    console.note(f"{name}: done in {summary['wall_s']:.0f} s → {run.root / name}")
    return summary


def _show(stage: str, summary: dict[str, Any], console: Console) -> None:
    """The table of a stage that has one, else its line; then where the files are."""
    for table in summary.get("tables", ()):
        console.table(table["title"], table["columns"], table["rows"])
    if not summary.get("tables"):
        console.say(f"{stage}: {summary['line']}")
    for path in summary.get("files", ()):
        console.say(f"→ {path}")


def look(domain: str, verb: str, words: Sequence[str], *, json: bool = False) -> bool:
    """`tasks`, `check`, or a command of the domain's own: prints a table, is no stage of a run. True if all is well."""
    console = Console(json_only=json)
    own = domains.command(domain, verb)
    aliases: dict[str, str] = getattr(own, "ALIASES", {})
    composed = compose(domain, [_long(word, aliases) for word in words])
    for note in notes.unread(composed, (verb,), {verb: own.READS} if own else READS):
        console.note(note)
    if verb == "check":  # a policy's step limit says nothing about a task
        composed.config.harness.max_steps = max(composed.config.harness.max_steps, ORACLE_STEPS)
    with TemporaryDirectory(prefix="orchard-") as place:
        context = make_context(composed, RunDir.of(domain, composed.config), console, blobs=Path(place))
        with closing(context):
            found = (own or importlib.import_module(f"orchard_cli.stages.{verb}")).run(context)
    if json:
        console.data(found)
    else:
        _show(verb, found, console)
    return bool(found["ok"])


def _long(word: str, aliases: Mapping[str, str]) -> str:
    key, equals, value = word.partition("=")
    return f"{aliases.get(key, key)}{equals}{value}"


def _give_back_memory() -> None:
    """A stage's models are gone; let the system have their pages before the next stage asks for its own."""
    gc.collect()
    with suppress(OSError, AttributeError):  # only the GNU C library knows how
        ctypes.CDLL(None).malloc_trim(0)
