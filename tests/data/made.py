"""Trajectories with tokens, made by hand: ids count up; `t` template, `e` environment, `p` policy."""

from dataclasses import dataclass
from itertools import groupby

from orchard_cli.outcome import Outcome
from orchard_cli.trajectory import Ledger, Message, Origin, Run, Step, Trajectory, Usage

ORIGIN = {"t": Origin.TEMPLATE, "e": Origin.ENVIRONMENT, "p": Origin.POLICY}


def attempt(
    letters: str, outcome: Outcome = Outcome.SOLVED, *, name: str = "a", first: int = 0, ledger: bool = True
) -> Trajectory:
    """One attempt whose n-th stretch of `p` is step n."""
    runs, steps, messages, at = [], [], [Message("user", "do it")], 0
    for letter, run in groupby(letters):
        length = len(list(run))
        origin = ORIGIN[letter]
        runs.append(Run(length, origin, 0 if letter == "p" else -1, mask="" if letter == "p" else origin.value))
        if letter == "p":
            messages += [Message("assistant", f"say {at}"), Message("user", "seen")]
            steps.append(Step(len(messages) - 2, "x", len(messages) - 1, span=(at, at + length) if ledger else None))
        at += length
    ids = tuple(range(first, first + at))
    account = Ledger(ids, tuple(runs), tuple(-0.5 for c in letters if c == "p"))
    return Trajectory(
        name,
        "t",
        "toy",
        "p",
        "toy",
        tuple(messages),
        tuple(steps),
        outcome,
        "submitted",
        ledgers=(account,) if ledger else (),
        reward=float(outcome is Outcome.SOLVED) if outcome.counts else None,
        usage=Usage(1, 10, letters.count("p")),
    )


@dataclass
class Rendered:
    ids: tuple[int, ...]
    origins: str
    images: tuple[()] = ()


def render(letters: str):
    return lambda messages, tools: [Rendered(tuple(range(len(letters))), letters)]
