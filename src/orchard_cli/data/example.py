"""What the trainer eats: one sequence of token ids with a loss weight for each, and the reason where it is 0.

Made from a trajectory's own ledger (tokens in, tokens out: nothing is tokenised again) or, for teachers that
give no tokens, from a chat template passed in. What is left out is left out by name, see `account.py`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Protocol

import msgspec

from ..errors import ConfigError
from ..outcome import Outcome
from ..trajectory import Ledger, Message, Origin, Shown, Trajectory
from ..trajectory.types import Record


class Rendered(Protocol):
    """ids, and one letter for each: p policy (to be learned), t template, e environment."""

    @property
    def ids(self) -> tuple[int, ...]: ...

    @property
    def origins(self) -> str: ...

    @property
    def images(self) -> tuple[Shown, ...]: ...


Render = Callable[[Sequence[Message], Sequence[dict[str, Any]]], Sequence[Rendered]]
"""messages, tools → the conversation in one or more sequences, as `policy.chat.Chat.segments` gives them."""

FIRST = "first_token"  # nothing comes before it that could predict it
_MASKS = {Origin.TEMPLATE: "template", Origin.ENVIRONMENT: "environment"}
_LETTERS = {"p": Origin.POLICY, "t": Origin.TEMPLATE, "e": Origin.ENVIRONMENT}


class Piece(Record, frozen=True):
    """Neighbouring tokens of one origin; `step` made them (policy tokens; −1 if no step is known)."""

    start: int
    stop: int
    origin: Origin
    step: int = -1
    mask: str = ""
    weight_version: int = -1


class Tokens(Record, frozen=True):
    """One sequence before any choice of what to learn: ids_T, pieces that tile it, logprobs_T or empty."""

    trajectory: str
    ids: tuple[int, ...]
    pieces: tuple[Piece, ...]
    logprobs: tuple[float, ...] = ()
    images: tuple[Shown, ...] = ()

    @property
    def sampled(self) -> int:
        """How many tokens the policy (or the teacher) wrote."""
        return sum(p.stop - p.start for p in self.pieces if p.origin is Origin.POLICY)


class Example(Record, frozen=True):
    """ids_T; weights_T, the loss weight of predicting ids[t] from ids[:t], 0 if masked; masks tile T as (length,
    reason), "" where trained; logprobs_T of the sampling engine (0 where not sampled) or empty."""

    trajectory: str
    ids: tuple[int, ...]
    weights: tuple[float, ...]
    masks: tuple[tuple[int, str], ...]
    sampled: int  # policy tokens: trained, and masked with a reason other than template and environment
    logprobs: tuple[float, ...] = ()
    advantage: float = 1.0
    weight_version: int = -1
    images: tuple[Shown, ...] = ()

    @property
    def trained(self) -> int:
        return sum(w > 0 for w in self.weights)


def from_ledger(trajectory: Trajectory, ledger: Ledger, number: int = 0) -> Tokens:
    """Take a ledger, the trajectory's n-th, as it is."""
    steps = {step.span: i for i, step in enumerate(trajectory.steps) if step.span and step.ledger == number}
    given, spread = iter(ledger.logprobs), []
    pieces = []
    for start, stop, run in ledger.spans():
        policy = run.origin is Origin.POLICY
        spread += [next(given) if policy and ledger.logprobs else 0.0 for _ in range(run.length)]
        step = next((i for (a, b), i in steps.items() if a <= start and stop <= b), -1) if policy else -1
        pieces.append(Piece(start, stop, run.origin, step, run.mask, run.weight_version))
    logprobs = tuple(spread) if ledger.logprobs else ()
    return Tokens(trajectory.id, ledger.ids, tuple(pieces), logprobs, ledger.images)


def from_render(trajectory: Trajectory, render: Render) -> list[Tokens]:
    """Render the messages; the n-th stretch of policy tokens belongs to the n-th assistant message. Nothing if the
    template does not keep them apart or leaves one out (a thinking-stripping template does)."""
    steps = {step.reply: i for i, step in enumerate(trajectory.steps)}
    said = [steps.get(i, -1) for i, m in enumerate(trajectory.messages) if m.role == "assistant"]
    parts = [_rendered(trajectory.id, part, said) for part in render(trajectory.messages, trajectory.tools)]
    whole = [part for part in parts if part is not None]
    return [] if said or len(whole) < len(parts) else whole


def _rendered(name: str, rendered: Rendered, said: list[int]) -> Tokens | None:
    """One sequence; takes the steps of its policy tokens from the front of `said`."""
    pieces, at = [], 0
    for letter, run in groupby(rendered.origins):
        length = len(list(run))
        step = -1
        if letter == "p":
            if not said:
                return None
            step = said.pop(0)
        pieces.append(Piece(at, at + length, _LETTERS[letter], step))
        at += length
    if at != len(rendered.ids):
        return None
    return Tokens(name, tuple(rendered.ids), tuple(pieces), images=rendered.images)


def sequences(trajectory: Trajectory, render: Render | None = None) -> Iterator[Tokens]:
    """All sequences of a trajectory: its ledgers if it has them, else rendered ones, if that can be done."""
    for number, ledger in enumerate(trajectory.ledgers):
        yield from_ledger(trajectory, ledger, number)
    if not trajectory.ledgers and render:
        yield from from_render(trajectory, render)


def turns(tokens: Tokens) -> Iterator[Tokens]:
    """One sequence for each turn, which ends with it: what was said before is context there, as what was seen."""
    before: list[Piece] = []
    for policy, run in groupby(tokens.pieces, key=lambda piece: piece.origin is Origin.POLICY):
        pieces = list(run)
        if policy:
            stop = pieces[-1].stop
            images = tuple(i for i in tokens.images if i.start < stop)
            yield Tokens(tokens.trajectory, tokens.ids[:stop], (*before, *pieces), tokens.logprobs[:stop], images)
            pieces = [msgspec.structs.replace(p, origin=Origin.ENVIRONMENT, step=-1, mask="") for p in pieces]
        before += pieces


def learn(tokens: Tokens, *, steps: Mapping[int, float] | None, otherwise: str, advantage: float = 1.0) -> Example:
    """Weigh the policy tokens: all of them (`steps` None), or those of the given steps with the given weights.

    Policy tokens of other steps are masked with the reason `otherwise`, all else with its origin; the whole
    history stays in the sequence.
    """
    weights, reasons = [], []
    for piece in tokens.pieces:
        reason = piece.mask or _MASKS.get(piece.origin, "")
        weight = 1.0 if steps is None else steps.get(piece.step, 0.0)
        if not reason and weight <= 0:
            reason = otherwise
        weights += [0.0 if reason else weight] * (piece.stop - piece.start)
        reasons += [reason] * (piece.stop - piece.start)
    if weights and weights[0] > 0:
        weights[0], reasons[0] = 0.0, FIRST
    return Example(
        tokens.trajectory,
        tokens.ids,
        tuple(weights),
        tuple((len(list(run)), reason) for reason, run in groupby(reasons)),
        tokens.sampled,
        tokens.logprobs,
        advantage,
        max((p.weight_version for p in tokens.pieces), default=-1),
        tokens.images,
    )


def rising_steps(ranges: Sequence[tuple[int, int]]) -> dict[int, float]:
    """Weight 1 for every step in the half-open ranges."""
    return {step: 1.0 for start, stop in ranges for step in range(start, stop)}


def chosen(
    outcome: Outcome, ranges: Sequence[tuple[int, int]] | None, unresolved: str
) -> tuple[dict[int, float] | None, str]:
    """The SFT rule: (steps to learn, None for all; reason to drop the attempt, or empty).

    unresolved: rise, only rising segments; full, everything; none, nothing.
    """
    if unresolved not in ("rise", "full", "none"):
        raise ConfigError(f"sft.unresolved is `{unresolved}`", hint="sft.unresolved is rise, full or none")
    if not outcome.counts:
        return {}, f"outcome_{outcome.value}"
    if outcome is Outcome.SOLVED or unresolved == "full":
        return None, ""
    if unresolved == "none":
        return {}, "unresolved"
    return (rising_steps(ranges), "") if ranges else ({}, "no_rise")


def with_advantage(example: Example, advantage: float) -> Example:
    return msgspec.structs.replace(example, advantage=advantage)
