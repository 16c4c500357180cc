"""Drawing what a task is about, over canonical names: a bug with its proof, and a distractor."""

import random
import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from orchard_cli.task import Split

from . import proof
from .catalog import Body, Group, bodies
from .families import FAMILIES
from .normal import normal_form, split_of
from .project import Case
from .values import arguments

GROUPS: dict[Group, int] = {"condition": 5, "expression": 3, "plain": 2}  # how often each is drawn
INPUTS = 24
SMALL = 16  # words of a distractor


@dataclass(frozen=True)
class Numbers:
    """What stands in the slots: `K` the right constant, `J` a wrong one."""

    right: int
    wrong: int

    @classmethod
    def draw(cls, rng: random.Random) -> "Numbers":
        right = rng.randint(2, 9)
        return cls(right, rng.choice([n for n in range(1, 10) if n != right]))

    def fill(self, text: str) -> str:
        return re.sub(r"\b[KJ]\b", lambda slot: str(self.right if slot[0] == "K" else self.wrong), text)


@dataclass(frozen=True)
class Bug:
    """A broken function with its proof, over canonical names."""

    body: Body
    good: str
    bad: str
    numbers: Numbers
    examples: proof.Examples
    slips: tuple[str, ...]  # other edits of the broken line, each seen to fail the shown examples


@dataclass(frozen=True)
class Distractor:
    """A correct function beside the broken one, with examples and one edit that breaks it."""

    body: Body
    text: str
    broken: str
    numbers: Numbers
    cases: tuple[Case, ...]


@cache
def owned(split: Split) -> tuple[Body, ...]:
    """The bodies of a split."""
    return tuple(body for body in bodies() if split_of(normal_form(body.text())) == split)


@cache
def of_family(split: Split, family: str) -> dict[Group, tuple[Body, ...]]:
    """The bodies of a split that a family may break, by group."""
    made: dict[Group, list[Body]] = {group: [] for group in GROUPS}
    for body in owned(split):
        if any(True for _ in FAMILIES[family](text_for(body, family))):
            made[body.group].append(body)
    return {group: tuple(found) for group, found in made.items() if found}


@cache
def small(split: Split) -> tuple[Body, ...]:
    """The bodies of a split that are short enough to be a distractor."""
    return tuple(body for body in owned(split) if body.words <= SMALL and body.code.count("\n") == 1)


def text_for(body: Body, family: str) -> str:
    """The source that a family breaks: with a default for the last parameter where that is what it breaks."""
    return body.text(default=family == "default" and body.params[-1] == "n" and "K" not in body.code)


def draw_bug(split: Split, family: str, rng: random.Random) -> Bug | str:
    groups = of_family(split, family)
    group = rng.choices(list(groups), [GROUPS[g] for g in groups])[0]
    body = rng.choice(groups[group])
    text = text_for(body, family)
    ours = [t for e in FAMILIES[family](text) if split_of(normal_form(t := e.apply(text))) == split]
    if not ours:
        return "other_split"
    bad = rng.choice(ours)
    numbers = Numbers.draw(rng)
    inputs = draw_inputs(body, rng, omit=family == "default")
    good, found = (proof.results(f, inputs) for f in proof.functions([text, bad], numbers.fill))
    if proof.hasty(found) or proof.hasty(good):
        return "hasty"
    if all(map(proof.same, good, found)):
        return "invisible"
    others = [t for t in proof.neighbours(bad) if t not in (text, bad)]
    rest = proof.functions(others, numbers.fill)
    examples = proof.choose(inputs, good, found, rest)
    if isinstance(examples, str):
        return examples
    at = changed_line(text, bad)
    slips = [
        other
        for other, function in zip(others, rest, strict=True)
        if changed_line(bad, other) == at
        and any(not proof.same(proof.value(function, case.args), case.want) for case in examples.shown)
    ]
    rng.shuffle(slips)
    return Bug(body, text, bad, numbers, examples, tuple(slips[:2]))


def draw_inputs(body: Body, rng: random.Random, *, omit: bool) -> list[tuple[Any, ...]]:
    """Different arguments; with `omit`, every other one leaves the last parameter to its default."""
    drawn = (arguments(body.params, rng) for _ in range(INPUTS))
    made = [args[:-1] if omit and i % 2 else args for i, args in enumerate(drawn)]
    return list({repr(args): args for args in made}.values())


def draw_distractor(split: Split, beside: Body, rng: random.Random) -> Distractor | str:
    body = rng.choice([b for b in rng.sample(small(split), 3) if b.code != beside.code])
    numbers = Numbers.draw(rng)
    text = body.text()
    neighbours = proof.neighbours(text)
    if not neighbours:
        return "no_slip"
    broken = rng.choice(neighbours)
    inputs = draw_inputs(body, rng, omit=False)
    good, bad = (proof.results(f, inputs) for f in proof.functions([text, broken], numbers.fill))
    cases = [(Case(a, w), b) for a, w, b in zip(inputs, good, bad, strict=True) if not isinstance(w, proof.Raised)]
    cases.sort(key=lambda pair: (proof.same(pair[0].want, pair[1]), pair[0].size))
    if proof.hasty(good) or len(cases) < 3 or proof.same(cases[0][0].want, cases[0][1]):
        return "no_slip"
    return Distractor(body, text, broken, numbers, tuple(case for case, _ in cases[:4]))


def changed_line(before: str, after: str) -> int:
    """The line (from 1) in which two texts of equally many lines differ."""
    pairs = zip(before.splitlines(), after.splitlines(), strict=True)
    return next(i for i, (a, b) in enumerate(pairs, 1) if a != b)
