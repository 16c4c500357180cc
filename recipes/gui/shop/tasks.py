"""From a seed to tasks of the shop. Training and evaluation share no catalogue, no account and no held-out family."""

import random
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from orchard_cli.errors import ConfigError
from orchard_cli.task import Split, Task

from .families import FAMILIES, Draw

SHOPS = 1_000_000  # catalogues of each split


def generate(
    split: Split,
    count: int,
    seed: int = 0,
    *,
    families: Sequence[str] = (),
    held_out: Sequence[str] = (),
    domain: str = "gui",
) -> Iterator[Task]:
    """`count` tasks of a split, the same for the same seed; a longer list begins with a shorter one.

    Each run of len(families) tasks holds every family once. `held_out` families are for evaluation alone. What the
    shop needs is `task.data["shop"]` (`seed`, `start`); what the grader needs is in `task.hidden`. `ConfigError` for an
    unknown family, or where none is left.
    """
    if unknown := {*families, *held_out} - set(FAMILIES):
        raise ConfigError(f"the shop has no family {sorted(unknown)}", hint=f"there are: {', '.join(FAMILIES)}")
    wanted = [f for f in FAMILIES if f in (families or FAMILIES) and (split == "eval" or f not in held_out)]
    if not wanted:
        raise ConfigError(f"no family of the shop is left for {split}", hint="hold out fewer families")
    for i in range(count):
        yield _task(split, i, seed, wanted[i % len(wanted)], domain)


def _task(split: Split, i: int, seed: int, family: str, domain: str) -> Task:
    rng = random.Random(f"shop/{split}/{seed}/{family}/{i}")
    shop = 2 * rng.randrange(SHOPS) + (split == "eval")
    problem = FAMILIES[family](Draw(shop, rng))
    prompt = rng.choice(wordings()[family]).format(**problem.slots)
    return Task(
        id=f"shop-{split}-{seed}-{i:05d}-{family}",
        domain=domain,
        prompt=prompt,
        split=split,
        family=family,
        data={"shop": {"seed": shop, "start": dict(problem.start)}},
        hidden={
            "changes": dict(problem.changes),
            "answer": dict(problem.answer),
            "plan": [dict(milestone) for milestone in problem.plan],
        },
    )


@cache
def wordings() -> dict[str, list[str]]:
    """Family → its wordings, from `wordings.txt`."""
    found: dict[str, list[str]] = {}
    for line in Path(__file__).with_name("wordings.txt").read_text("utf-8").splitlines():
        family, _, text = line.partition(": ")
        if not line.startswith("#"):
            found.setdefault(family, []).append(text)
    return found
