"""From a seed to tasks: draw a bug and a distractor, dress them, write the files, prove the tests."""

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchard_cli.errors import ConfigError, RunError
from orchard_cli.task import Split, Task

from . import proof
from .catalog import Body
from .draw import Bug, Distractor, Numbers, changed_line, draw_bug, draw_distractor
from .edits import LineEdit, smallest
from .families import FAMILIES
from .project import HIDDEN_COMMAND, RUNNER, RUNNER_TEXT, TEST_COMMAND, TESTS, patch_text, tests_text
from .values import FILES, rename, surface

TRIES = 1000
_ISSUES = tuple(Path(__file__).with_name("issues.txt").read_text(encoding="utf-8").splitlines())


@dataclass(frozen=True)
class Dress:
    """The surface of one function: its name, its variables, its numbers."""

    name: str
    names: dict[str, str]
    numbers: Numbers

    @classmethod
    def draw(cls, body: Body, text: str, numbers: Numbers, rng: random.Random) -> "Dress":
        name = re.sub(r"K$", str(numbers.right), rng.choice(body.names))
        return cls(name, surface(text, rng) | {"F": name}, numbers)

    def put_on(self, text: str) -> str:
        return rename(self.numbers.fill(text), self.names)


def generate(
    split: Split,
    count: int,
    seed: int,
    *,
    families: Sequence[str] = tuple(FAMILIES),
    drops: Counter[str] | None = None,
) -> Iterator[Task]:
    """`count` tasks of a split, all different, the same for the same seed; a longer list begins with a shorter one.

    Each run of len(families) tasks holds every family once. `drops` counts the candidates that were given up:
    `other_split`, `hasty`, `invisible`, `ambiguous`, `no_slip`, `unproven`, `repeat`.
    """
    if unknown := set(families) - set(FAMILIES):
        raise ConfigError(f"minibugs has no family {sorted(unknown)}", hint=f"there are: {', '.join(FAMILIES)}")
    dropped = Counter[str]() if drops is None else drops
    seen: set[str] = set()
    for i in range(count):
        order = list(families)
        random.Random(f"{seed}/{split}/round {i // len(order)}").shuffle(order)
        rng = random.Random(f"{seed}/{split}/{i}")
        yield _next(f"minibugs-{split}-{i:06d}", split, order[i % len(order)], rng, seen, dropped)


def _next(name: str, split: Split, family: str, rng: random.Random, seen: set[str], dropped: Counter[str]) -> Task:
    for _ in range(TRIES):
        made = draw_bug(split, family, rng)
        made = made if isinstance(made, str) else _task(name, split, family, made, rng)
        if isinstance(made, Task) and made.hidden["patch"] in seen:
            made = "repeat"
        if isinstance(made, Task):
            seen.add(made.hidden["patch"])
            return made
        dropped[made] += 1
    raise RunError(f"no new minibug of family {family} in {TRIES} tries", hint="ask for fewer tasks or more families")


@dataclass(frozen=True)
class Sources:
    """The module of one task in all its versions."""

    bug: Bug
    beside: Distractor
    dress: Dress  # of the broken function
    other: Dress  # of the distractor
    first: bool  # the broken function stands first

    @classmethod
    def draw(cls, bug: Bug, beside: Distractor, rng: random.Random) -> "Sources":
        dress = Dress.draw(bug.body, bug.good, bug.numbers, rng)
        other = Dress.draw(beside.body, beside.text, beside.numbers, rng)
        return cls(bug, beside, dress, other, rng.random() < 0.5)

    def module(self, target: str, beside: str | None = None) -> str:
        both = [self.dress.put_on(target), self.other.put_on(beside or self.beside.text)]
        return "\n".join(both if self.first else both[::-1])

    def script(self, path: str) -> dict[str, Any]:
        """What the scripted teacher needs: the fix, and edits that were seen to do harm."""
        bad = self.module(self.bug.bad)
        return {
            "file": path,
            "fix": _between(bad, self.module(self.bug.good)),
            "slips": [_between(bad, self.module(slip)) for slip in self.bug.slips],
            "astray": _between(bad, self.module(self.bug.bad, self.beside.broken)),
        }


def _task(name: str, split: Split, family: str, bug: Bug, rng: random.Random) -> Task | str:
    """The task, or why there is none."""
    beside = draw_distractor(split, bug.body, rng)
    if isinstance(beside, str):
        return beside
    made = Sources.draw(bug, beside, rng)
    if made.dress.name == made.other.name:
        return "repeat"
    module = rng.choice(FILES)
    path = f"{module}.py"
    bad, good = made.module(bug.bad), made.module(bug.good)
    visible, hidden = _tests(module, made)
    before, after = proof.outcomes(module, (bad, good), hidden)
    test, side = f"test_{made.dress.name}", f"test_{made.other.name}"
    if not all(after.values()) or before[test] or not before[side]:
        return "unproven"
    issue = _issue(path, made.dress, bug, family, rng)
    data = {"files": {path: bad, TESTS: visible, RUNNER: RUNNER_TEXT}, "test_cmd": TEST_COMMAND}
    return Task(
        name,
        "swe",
        issue,
        split,
        family,
        data,
        {
            "patch": patch_text(path, bad, good),
            "test_files": {TESTS: hidden, RUNNER: RUNNER_TEXT},
            "test_cmd": HIDDEN_COMMAND,
            "report": "runner",
            "timeout_s": 20,
            "fail_to_pass": [t for t in after if not before[t]],
            "pass_to_pass": [t for t in after if before[t]],
            "script": made.script(path),
        },
    )


def _tests(module: str, made: Sources) -> tuple[str, str]:
    """(what the agent sees, what grading runs): the second has all examples of the first, and more."""
    name, side = made.dress.name, made.other.name
    shown, cases = made.bug.examples.shown, made.beside.cases
    visible = {f"test_{name}": (name, shown), f"test_{side}": (side, cases[:1])}
    rest = made.bug.examples.more
    more = {f"test_{name}_more": (name, rest)} if rest else {}
    more |= {f"test_{side}": (side, cases)}
    return tests_text(module, visible), tests_text(module, visible | more)


def _issue(path: str, dress: Dress, bug: Bug, family: str, rng: random.Random) -> str:
    case = bug.examples.shown[0]
    call = case.call(dress.name)
    text = rng.choice(_ISSUES).format(
        file=path,
        test=f"test_{dress.name}",
        name=dress.name,
        call=call,
        args=call[len(dress.name) :],
        got=repr(bug.examples.got),
        want=repr(case.want),
    )
    if family == "default":
        text += f" {dress.names[bug.body.params[-1]]} defaults to {bug.numbers.right}."
    return text


def _between(before: str, after: str) -> LineEdit:
    line = changed_line(before, after)
    return smallest(line, before.splitlines()[line - 1], after.splitlines()[line - 1])
