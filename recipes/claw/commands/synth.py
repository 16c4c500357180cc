"""Make new task families: propose, build, solve, refine on the evidence; only what is proved is kept."""

import json
import random
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import yaml

from orchard_cli import policy as policies
from orchard_cli.env.sandbox import Env
from orchard_cli.outcome import Outcome
from orchard_cli.policy.policy import Policy, Sampling
from orchard_cli.rollout import Job, attempt
from orchard_cli.task import Task
from orchard_cli.trajectory import Usage

from ..synth_alike import Known, copied, near
from ..synth_mix import may_mix, mix
from ..synth_model import Writer
from ..tasks.family import Family, family, make
from ..tasks.library import shipped
from ..tasks.proof import faults
from ..tasks.reading import FieldError
from ..tasks.sets import benchmark

READS = ("seed", "tasks", "domain", "teacher", "env", "harness")
ALIASES = {"n": "domain.synth"}
COLUMNS = ["family", "rounds", "solved by the model", "what came of it"]
ROUNDS = 3  # pages that one proposal may take
TRIES = 20  # proposals for each family that is asked for
PROVED = (0, 1, 2)  # seeds
SOLVES = 2  # attempts by the model at each kept family


def run(context: Any) -> dict[str, Any]:
    """Writes <run>/synth/families.yaml, to be used with `tasks=file`, and log.jsonl; goes on where it stopped."""
    folder: Path = context.root / "synth"
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "log.jsonl"
    entries = _entries(log)
    known = [Known(name, _text(f)) for name, f in shipped().items()]
    known += [Known(e["name"], e["text"]) for e in entries if e["kept"]]
    against = [Known(t.id, t.prompt) for t in benchmark(context.config.domain.against)]
    wanted = context.config.domain.synth
    policy = None if context.config.teacher.kind == "scripted" else policies.open_teacher(context.config.teacher)
    with closing(context.open_env()) as env, log.open("a") as out:
        for number in range(len(entries), TRIES * wanted):
            if sum(e["kept"] for e in entries) >= wanted:
                break
            entry = _proposal(context, policy, env, number, known, against)
            entries.append(entry)
            out.write(json.dumps(entry, ensure_ascii=False) + "\n")
            out.flush()
            known += [Known(entry["name"], entry["text"])] if entry["kept"] else []
            context.report.note(f"synth: {entry['name']}: {'kept' if entry['kept'] else entry['why'][0][:160]}")
    kept = [e for e in entries if e["kept"]]
    apart = json.loads(json.dumps([e["page"] for e in kept]))  # else YAML writes what pages share as aliases
    pages = yaml.safe_dump_all(apart, sort_keys=False, allow_unicode=True)
    (folder / "families.yaml").write_text(pages)
    return _summary(entries, kept, wanted, folder)


def _proposal(
    context: Any, policy: Policy | None, env: Env, number: int, known: list[Known], against: list[Known]
) -> dict[str, Any]:
    """One proposal to its end: kept, or why not."""
    rng = random.Random(f"{context.config.seed}/synth/{number}")
    entry: dict[str, Any] = {"number": number, "name": "", "text": "", "kept": False, "rounds": 0, "solved": 0}
    writer = _writer(policy, rng) if policy else None
    for _ in range(ROUNDS if writer else 1):
        entry["rounds"] += 1
        try:
            page = writer.page() if writer else mix([f for f in shipped().values() if may_mix(f)], rng)
            made = family(page, "proposal", number)
            entry |= {"name": made.name, "text": _text(made), "page": page}
            entry["why"] = list(_wrong(made, known, against))
        except FieldError as error:
            entry["why"] = [str(error)]
        if not entry["why"]:
            entry |= _solved(context, policy, env, made)
            entry["kept"] = not entry["why"]
            break
        if writer:
            writer.refine(entry["why"])
    usage = writer.usage if writer else Usage()
    return entry | {"tokens": usage.prompt_tokens + usage.completion_tokens, "cost_usd": usage.cost_usd}


def _writer(policy: Policy, rng: random.Random) -> Writer:
    example = rng.choice(list(shipped().values()))
    text = yaml.safe_dump(dict(example.page), sort_keys=False, allow_unicode=True)
    return Writer(policy, text, list(shipped()), rng.randrange(2**31))


def _wrong(made: Family, known: list[Known], against: list[Known]) -> Iterator[str]:
    """Why a family cannot be kept: not new, taken from a benchmark, or not proved."""
    if made.name in {k.name for k in known}:
        yield f"family: there is a `{made.name}`"
    if like := near(_text(made), known):
        yield f"it is nearly {like}"
    if source := copied(_text(made), against):
        yield f"it repeats words of {source}"
    for seed in PROVED:
        yield from (f"seed {seed}: {fault}" for fault in faults(make(made, seed=seed, split="train")))


def _solved(context: Any, policy: Policy | None, env: Env, made: Family) -> dict[str, Any]:
    """Through the real harness and sandbox: the plan must solve it; how often the model does is counted."""
    task = make(made, seed=0, split="train")
    oracle = context.domain.script(task, seed=0, error_rate=0.0)
    first = _attempt(context, env, task, oracle, 0)
    if first.outcome is not Outcome.SOLVED:
        return {"why": [f"through the harness the plan ends {first.outcome}: {dict(first.grade)}"]}
    if policy is None:
        return {"solved": 0}
    tries = [_attempt(context, env, make(made, seed=s, split="train"), policy, s) for s in range(SOLVES)]
    return {"solved": sum(t.outcome is Outcome.SOLVED for t in tries)}


def _attempt(context: Any, env: Env, task: Task, policy: Policy, number: int) -> Any:
    return attempt(Job(task, policy, Sampling(temperature=0.7), "synth", number), context.domain, env)


def _entries(log: Path) -> list[dict[str, Any]]:
    """What an earlier run has done; a line that was cut short is left out."""
    found = []
    for line in log.read_text().splitlines() if log.exists() else ():
        with suppress(ValueError):
            found.append(json.loads(line))
    return found


def _text(made: Family) -> str:
    """The wordings and the shape of the solution."""
    say = made.page["say"] if isinstance(made.page["say"], list) else [made.page["say"]]
    return " ".join([*say, *(next(iter(c)) if isinstance(c, dict) else c for c in made.page["plan"])])


def _summary(entries: list[dict[str, Any]], kept: list[dict[str, Any]], wanted: int, folder: Path) -> dict[str, Any]:
    cost, tokens = sum(e["cost_usd"] for e in entries), sum(e["tokens"] for e in entries)
    rows = [[e["name"], str(e["rounds"]), str(e["solved"]), "kept" if e["kept"] else e["why"][0][:90]] for e in entries]
    return {
        "ok": len(kept) >= wanted,
        "line": f"{len(kept)} of {len(entries)} proposals kept · {tokens:,} tokens · ${cost:.2f}",
        "tables": [
            {
                "title": "proposals",
                "columns": ["family", "rounds", "solved by the model", "what came of it"],
                "rows": rows,
            }
        ],
        "files": [str(folder / "families.yaml"), str(folder / "log.jsonl")],
        "kept": [e["name"] for e in kept],
        "cost_usd": cost,
    }
