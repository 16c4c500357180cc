"""A trajectory as text that a person reads. What models and programs wrote cannot act on the terminal."""

import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import indent

from .types import Ledger, Message, Origin, Step, Trajectory

_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


@dataclass(frozen=True)
class Block:
    """One part of the text. kind: summary | system | user | assistant | tool | artifact. Both texts are safe."""

    kind: str
    title: str
    text: str
    message: int = -1  # index of the message that it shows


def printable(text: str, *, lines: bool = True) -> str:
    """`text` with every control, format and surrogate character written out (`\\x1b`, `\\u202e`), so that it can
    neither move the cursor nor hide. Tabs stay, and line ends too unless `lines` is false.
    """
    keep = "\n\t" if lines else ""
    return "".join(
        c if c in keep or unicodedata.category(c) not in _UNSEEN else c.encode("unicode_escape").decode() for c in text
    )


def render(trajectory: Trajectory, *, chars: int = 0) -> str:
    """The whole attempt as text. chars: longer messages are cut in the middle, saying so; 0: never.

    Texts are indented, titles are not, so that no message can pass for another one.
    """
    parts = []
    for block in blocks(trajectory, chars=chars):
        parts.append(f"── {block.title} ──\n{indent(block.text, '  ')}".rstrip())
    return "\n\n".join(parts) + "\n"


def blocks(trajectory: Trajectory, *, chars: int = 0) -> Iterator[Block]:
    """Summary, then each message with its step, then what was graded."""
    t = trajectory
    yield Block("summary", f"trajectory {_word(t.id)}", "\n".join(_summary(t)))
    replies = {step.reply: (at, step) for at, step in enumerate(t.steps, 1)}
    observations = {step.observation: (at, step) for at, step in enumerate(t.steps, 1) if step.observation >= 0}
    for at, message in enumerate(t.messages):
        title: str = message.role
        if at in replies:
            title = f"step {replies[at][0]} · {message.role}{_sampled(replies[at][1])}"
        elif at in observations:
            title = f"step {observations[at][0]} · observation ({message.role}){_executed(observations[at][1])}"
        yield Block(message.role, title, _clip(printable(_text(message)), chars), at)
        if at in replies and replies[at][1].observation < 0 and replies[at][1].executed:
            ended = _executed(replies[at][1])
            yield Block("tool", f"step {replies[at][0]} · no observation{ended}", "")
    if t.artifact:
        yield Block("artifact", "what was graded", _clip(printable(t.artifact), chars))


def _summary(t: Trajectory) -> Iterator[str]:
    family = f", family {_word(t.family)}" if t.family else ""
    yield f"task     {_word(t.task_id)} ({_word(t.domain)}, {t.split}{family})"
    yield (
        f"attempt  {t.attempt}, stage {_word(t.stage) or '-'}, seed {t.seed}, "
        f"policy {_word(t.policy)}, harness {_word(t.harness)}"
    )
    reward = "no reward" if t.reward is None else f"reward {t.reward:g}"
    yield f"outcome  {t.outcome.value}, {reward}, stopped by {_word(t.stop)}, {len(t.steps)} steps"
    if t.fault:
        f = t.fault
        yield f"fault    {_word(f.domain)} {_word(f.code)} ({f.attributable}): {_word(f.message)}"
    for ledger in t.ledgers:
        yield f"tokens   {_account(ledger)}"
    u = t.usage
    cost = f", ${u.cost_usd:.4f}" if u.cost_usd else ""
    yield f"usage    {u.calls} calls, {u.prompt_tokens} prompt + {u.completion_tokens} completion tokens{cost}"
    yield f"time     {t.wall_s:.1f} s" + (f", started {_word(t.started_at)}" if t.started_at else "")


def _account(ledger: Ledger) -> str:
    """Where the tokens of one ledger came from, and why which may not be trained on."""
    origins: Counter[Origin] = Counter()
    masked: Counter[str] = Counter()
    for run in ledger.runs:
        origins[run.origin] += run.length
        if run.origin == Origin.POLICY and run.mask:
            masked[run.mask] += run.length
    sampled = origins[Origin.POLICY]
    masks = "".join(f", {count} masked: {_word(reason)}" for reason, count in sorted(masked.items()))
    return (
        f"{len(ledger.ids)}: {sampled} sampled ({sampled - sum(masked.values())} trainable{masks}), "
        f"{origins[Origin.TEMPLATE]} template, {origins[Origin.ENVIRONMENT]} environment"
    )


def _text(message: Message) -> str:
    parts = [f"[reasoning]\n{message.reasoning}\n[/reasoning]"] if message.reasoning else []
    parts += [message.content] if message.content else []
    for call in message.tool_calls:
        arguments = "\n".join(f"  {name}: {value}" for name, value in call.arguments.items())
        parts.append(f"→ {call.name} ({call.id})\n{arguments}")
    parts += [f"[image {sha[:12]}]" for sha in message.images]
    return "\n".join(parts)


def _sampled(step: Step) -> str:
    tokens = f" · {step.span[1] - step.span[0]} tokens [{step.span[0]}, {step.span[1]})" if step.span else ""
    finish = "" if step.finish in ("stop", "tool_calls") else f" · finish {_word(step.finish)}"
    return f"{tokens}{finish}{'' if step.action else ' · no action'}"


def _executed(step: Step) -> str:
    if not step.executed:
        return ""
    done = step.executed
    how = f"exit {done.exit_code}" if done.reason == "exited" else _word(done.reason)
    if done.codes:
        how = ", ".join(map(_word, done.codes))
    cut = f" · {done.truncated_bytes} of {done.output_bytes} bytes cut" if done.truncated_bytes else ""
    return f" · {how} · {done.wall_s:.2f} s{cut}"


def _word(text: str) -> str:
    return printable(text, lines=False)


def _clip(text: str, chars: int) -> str:
    if not chars or len(text) <= chars:
        return text
    half = chars // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[len(text) - half :]}"
