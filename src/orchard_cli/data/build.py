"""From trajectories to examples, for SFT and for RL, with the account of every token."""

from collections.abc import Iterable, Mapping, Sequence

from ..trajectory import Trajectory
from .account import Account, written
from .caps import over
from .example import Example, Render, Tokens, chosen, learn, sequences
from .example import turns as each_turn

Ranges = Sequence[tuple[int, int]]


def sft_examples(
    trajectories: Iterable[Trajectory],
    rising: Mapping[str, Ranges],
    *,
    unresolved: str,
    max_length: int,
    render: Render | None = None,
    turns: str = "all",
    per_task: int = 0,
    per_family: int = 0,
    dedupe: bool = True,
) -> tuple[list[Example], Account]:
    """Resolved attempts whole, unresolved ones by `unresolved` (`sft.unresolved`); `rising`: step ranges by
    trajectory id. turns: all, an example learns every turn of its sequence; last, there is one for each turn, which
    learns that one (`sft.turns`). Of a task's and a family's resolved attempts at most so many are used. Dropped by
    name: outcome_…, unresolved, no_rise, per_task, per_family, no_tokens, too_long, nothing_trained, duplicate.
    """
    account, examples = Account(), []
    seen: set[tuple[object, ...]] = set()
    attempts = list(trajectories)
    beyond = over(attempts, per_task=per_task, per_family=per_family)
    for at, trajectory in enumerate(attempts):
        found = _read(trajectory, render, turns)
        account.open(written(trajectory, found))
        steps, reason = chosen(trajectory.outcome, rising.get(trajectory.id), unresolved)
        if not found:
            account.drop(written(trajectory, found), reason or beyond.get(at, "no_tokens"))
        for tokens in found:
            example = learn(tokens, steps=steps, otherwise="not_rising")
            why = reason or beyond.get(at) or _unfit(example, max_length)
            key = (example.ids, example.weights, *(image.sha for image in example.images))
            why = why or ("duplicate" if dedupe and key in seen else "")
            if why:
                account.drop(tokens.sampled, why)
                continue
            seen.add(key)
            account.keep(example)
            examples.append(example)
    account.check()
    return examples, account


def _read(trajectory: Trajectory, render: Render | None, turns: str) -> list[Tokens]:
    found = list(sequences(trajectory, render))
    return [turn for tokens in found for turn in each_turn(tokens)] if turns == "last" else found


def rl_group(
    attempts: Iterable[Trajectory], advantages: Mapping[str, float], *, max_length: int, unused: str = "discarded"
) -> tuple[list[Example], Account]:
    """The examples of one task's attempts: all policy tokens of those with an advantage (by trajectory id).

    The others are dropped as `unused`, or by their outcome if it does not count. An attempt with several
    ledgers gives several examples with the same advantage. Only ledgers are used: nothing is tokenised again.
    """
    account, examples = Account(), []
    for trajectory in attempts:
        found = list(sequences(trajectory))
        account.open(written(trajectory, found))
        missing: list[Tokens | None] = [None]
        for tokens in found or missing:
            example = _rl_example(tokens, advantages.get(trajectory.id))
            why = "" if trajectory.outcome.counts else f"outcome_{trajectory.outcome.value}"
            why = why or ("no_tokens" if not tokens else unused if not example else _unfit(example, max_length))
            if why or not example:
                account.drop(tokens.sampled if tokens else written(trajectory, found), why)
                continue
            account.keep(example)
            examples.append(example)
    account.check()
    return examples, account


def _rl_example(tokens: Tokens | None, advantage: float | None) -> Example | None:
    if tokens is None or advantage is None:
        return None
    return learn(tokens, steps=None, otherwise="", advantage=advantage)


def _unfit(example: Example, max_length: int) -> str:
    if len(example.ids) > max_length:
        return "too_long"
    return "" if example.trained else "nothing_trained"
