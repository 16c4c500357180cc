"""What must hold inside one trajectory, each rule with a code of its own."""

import math
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from ..outcome import Outcome
from .types import Ledger, Origin, Trajectory

Decode = Callable[[Sequence[int]], str]
_LARGEST_ID = 2**31 - 1
_ROUNDING = 1e-6  # a log-probability of 0 may come out of an engine as a hair more
_FAULTED = (Outcome.INFRA_ERROR, Outcome.VERIFIER_ERROR)


class Flaw(NamedTuple):
    """One broken rule: where in the record, its code, and what is wrong."""

    field: str
    code: str
    message: str


def check(trajectory: Trajectory, decode: Decode | None = None) -> Iterator[Flaw]:
    """Every flaw of one record, at most one for each item of a list.

    decode: token ids to text without special tokens; then each step's tokens must say what its message says.
    """
    yield from _identity(trajectory)
    yield from _messages(trajectory)
    yield from _steps(trajectory)
    for at, ledger in enumerate(trajectory.ledgers):
        yield from _runs(ledger, f"ledgers[{at}]")
        yield from _tokens(ledger, f"ledgers[{at}]")
        yield from _images(trajectory, ledger, f"ledgers[{at}]")
    yield from _spans(trajectory)
    yield from _grade(trajectory)
    if decode and next(check(trajectory), None) is None:  # only then do spans and ids mean something
        yield from _agreement(trajectory, decode)


def _identity(t: Trajectory) -> Iterator[Flaw]:
    for name in ("id", "task_id", "stop"):
        if not getattr(t, name):
            yield Flaw(name, "empty", f"{name} is empty")
    usage = t.usage
    for field, number in (
        ("attempt", t.attempt),
        ("wall_s", t.wall_s),
        ("usage.calls", usage.calls),
        ("usage.prompt_tokens", usage.prompt_tokens),
        ("usage.completion_tokens", usage.completion_tokens),
        ("usage.cost_usd", usage.cost_usd),
    ):
        if not number >= 0:
            yield Flaw(field, "negative", f"{number} is less than 0")
    if usage.calls < len(t.steps):
        message = f"{usage.calls} model calls for {len(t.steps)} steps"
        yield Flaw("usage.calls", "usage_calls", message)
    if t.started_at and not _is_utc(t.started_at):
        message = f"{t.started_at!r} is no ISO 8601 time in UTC"
        yield Flaw("started_at", "timestamp", message)


def _is_utc(text: str) -> bool:
    try:
        offset = datetime.fromisoformat(text).utcoffset()
    except ValueError:
        return False
    return offset is not None and not offset


def _messages(t: Trajectory) -> Iterator[Flaw]:
    asked: set[str] = set()
    for at, message in enumerate(t.messages):
        if message.role == "assistant":
            asked.update(call.id for call in message.tool_calls)
        elif message.role == "tool" and message.tool_call_id not in asked:
            told = f"answers call {message.tool_call_id!r}, which no message before it made"
            yield Flaw(f"messages[{at}].tool_call_id", "tool_call_id", told)


def _steps(t: Trajectory) -> Iterator[Flaw]:
    count, last = len(t.messages), -1
    for at, step in enumerate(t.steps):
        here = f"steps[{at}]"
        if not 0 <= step.reply < count:
            yield Flaw(f"{here}.reply", "reply_index", f"{step.reply} is no index into {count} messages")
        elif t.messages[step.reply].role != "assistant":
            role = t.messages[step.reply].role
            yield Flaw(f"{here}.reply", "reply_role", f"message {step.reply} is a {role} message")
        elif step.reply <= last:
            yield Flaw(f"{here}.reply", "reply_order", f"{step.reply} does not follow {last}")
        last = max(last, *(index for index in (step.reply, step.observation) if index < count))
        if step.observation == -1:
            continue
        if not step.reply < step.observation < count:
            told = f"{step.observation} is no message after reply {step.reply} of {count} messages"
            yield Flaw(f"{here}.observation", "observation_index", told)
        elif t.messages[step.observation].role not in ("user", "tool"):
            role = t.messages[step.observation].role
            told = f"message {step.observation} is a message of the {role}"
            yield Flaw(f"{here}.observation", "observation_role", told)


def _runs(ledger: Ledger, here: str) -> Iterator[Flaw]:
    total = sum(run.length for run in ledger.runs)
    if total != len(ledger.ids):
        yield Flaw(f"{here}.runs", "runs_sum", f"runs of {total} tokens for {len(ledger.ids)} ids")
    for at, run in enumerate(ledger.runs):
        field = f"{here}.runs[{at}]"
        if run.length < 1:
            yield Flaw(f"{field}.length", "run_length", f"{run.length} tokens")
        elif run.origin == Origin.POLICY and run.weight_version < 0:
            yield Flaw(f"{field}.weight_version", "weight_version", "sampled tokens without a weight version")
        elif run.origin != Origin.POLICY and not run.mask:
            told = f"{run.origin.value} tokens without a reason for their mask"
            yield Flaw(f"{field}.mask", "mask_missing", told)


def _tokens(ledger: Ledger, here: str) -> Iterator[Flaw]:
    sampled = sum(run.length for run in ledger.runs if run.origin == Origin.POLICY)
    if len(ledger.logprobs) != sampled:
        told = f"{len(ledger.logprobs)} log-probabilities for {sampled} policy tokens"
        yield Flaw(f"{here}.logprobs", "logprobs_count", told)
    for at, logprob in enumerate(ledger.logprobs):
        if not -math.inf < logprob <= _ROUNDING:
            yield Flaw(f"{here}.logprobs[{at}]", "logprob_value", f"{logprob} is no log-probability")
            break
    for at, token in enumerate(ledger.ids):
        if not 0 <= token <= _LARGEST_ID:
            yield Flaw(f"{here}.ids[{at}]", "token_id", f"{token} is no token id")
            break


def _images(t: Trajectory, ledger: Ledger, here: str) -> Iterator[Flaw]:
    """Pictures lie in order on tokens of the environment, and a message shows each of them."""
    seen = {sha for message in t.messages for sha in message.images}
    ground = _joined(ledger, Origin.ENVIRONMENT) if ledger.images else []
    last = 0
    for at, image in enumerate(ledger.images):
        field, end = f"{here}.images[{at}]", image.start + image.length
        if image.length < 1 or image.start < last or not any(a <= image.start and end <= b for a, b in ground):
            yield Flaw(field, "image_place", f"[{image.start}, {end}) is no place for a picture")
        if image.sha not in seen:
            yield Flaw(f"{field}.sha", "image_unknown", f"no message shows {image.sha[:80]!r}")
        last = max(last, end)


def _spans(t: Trajectory) -> Iterator[Flaw]:
    policy = [_joined(ledger, Origin.POLICY) for ledger in t.ledgers]
    last = number = 0
    for at, step in enumerate(t.steps):
        if step.span is None:
            continue
        if t.ledgers and not number <= step.ledger < len(t.ledgers):
            told = f"{step.ledger} is none of {len(t.ledgers)} ledgers, or one before {number}"
            yield Flaw(f"steps[{at}].ledger", "ledger_index", told)
            continue
        last, number = (last if step.ledger == number else 0), step.ledger
        size = len(t.ledgers[number].ids) if t.ledgers else 0
        field, (start, end) = f"steps[{at}].span", step.span
        if not t.ledgers:
            yield Flaw(field, "span_bounds", "a span, but there is no ledger")
        elif not 0 <= start <= end <= size:
            yield Flaw(field, "span_bounds", f"[{start}, {end}) is not within {size} tokens")
        elif start < last:
            yield Flaw(field, "span_order", f"[{start}, {end}) begins before {last}, where the last one ended")
        elif start < end and not any(low <= start and end <= high for low, high in policy[number]):
            yield Flaw(field, "span_origin", f"[{start}, {end}) holds tokens that the policy did not sample")
        last = max(last, end)


def _joined(ledger: Ledger, origin: Origin) -> list[tuple[int, int]]:
    """Stretches of tokens of one origin, neighbouring runs joined."""
    spans: list[tuple[int, int]] = []
    for start, end, run in ledger.spans():
        if run.origin != origin:
            continue
        if spans and spans[-1][1] == start:
            spans[-1] = spans[-1][0], end
        else:
            spans.append((start, end))
    return spans


def _grade(t: Trajectory) -> Iterator[Flaw]:
    outcome = t.outcome.value
    if not t.outcome.counts:
        if t.reward is not None:
            yield Flaw("reward", "reward_unexpected", f"{t.reward} on {outcome}, which never has a reward")
    elif t.reward is None:
        yield Flaw("reward", "reward_missing", f"no reward on {outcome}")
    elif not 0 <= t.reward <= 1:
        yield Flaw("reward", "reward_range", f"{t.reward} is not between 0 and 1")
    elif t.outcome is Outcome.SOLVED and not t.reward:
        yield Flaw("reward", "solved_reward", "solved, but the reward is 0")
    if t.outcome in _FAULTED and t.fault is None:
        yield Flaw("fault", "fault_missing", f"{outcome}, but no fault says why")


def _agreement(t: Trajectory, decode: Decode) -> Iterator[Flaw]:
    for at, step in enumerate(t.steps):
        if step.span is None:
            continue
        start, end = step.span
        message, text = t.messages[step.reply], decode(t.ledgers[step.ledger].ids[start:end])
        parts = [part.strip() for part in (message.reasoning, message.content)]
        plain = not message.tool_calls and not message.reasoning
        if text.strip() != parts[1] if plain else any(part not in text for part in parts):
            told = f"tokens [{start}, {end}) say {text[:80]!r}, message {step.reply} says {parts[1][:80]!r}"
            yield Flaw(f"steps[{at}].span", "decode_mismatch", told)
