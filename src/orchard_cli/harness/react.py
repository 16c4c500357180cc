"""A loop for policies that act through a `Toolset`: ask, make the calls of the reply in order, show what came of them.

`mini` is for agents with a shell; this one is for browsers, services and other worlds with tools of their own. A tool
that the policy uses wrongly answers with a code; only a reply without a readable call is a format error.
"""

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from .. import schema
from ..env.sandbox import Sandbox
from ..policy.policy import Policy, Sampling
from ..task import Task
from ..trajectory import Executed, Message, ToolCall
from . import literals
from .attempt import Attempt
from .calls import CALLS
from .formats import FormatError, chosen
from .harness import Transcript
from .prompts import Prompts
from .tools import ToolResult, Toolset


class ReactLoop:
    """Several calls a turn, an observation at its end, until a result says stop (`submitted`).

    prompts: a folder with `system`, `instance` and `format_error`; `system` also sees `tools`, a line for each, where
    the format is text. toolset: binds the tools of an attempt to its sandbox; they are closed before the attempt is
    graded. name: what `harness.kind` calls the loop with these tools. Raises `ConfigError` as `MiniLoop` does.
    """

    name = "react"
    forkable = False  # tools may hold processes, which a fork does not copy

    def __init__(
        self, config: schema.Harness, prompts: Path, toolset: Callable[[Task, Sandbox], Toolset], name: str = name
    ):
        self.config, self.name = config, name
        self.format = chosen(config, self.name, CALLS)
        self.prompts = Prompts(prompts, ("system", "instance", "format_error"))
        self.toolset = toolset

    def run(
        self,
        task: Task,
        sandbox: Sandbox,
        policy: Policy,
        sampling: Sampling,
        *,
        resume: Transcript | None = None,
    ) -> Transcript:
        at = Attempt.of(self.config, resume, sampling.turns)
        with at.guarded(), closing(self.toolset(task, sandbox)) as tools:
            seen = tools.open()
            at.tools = self.format.offered(tools.specs)
            at.begin(self._first(task, tools, seen))
            at.run(lambda: self._turn(at, tools, policy, sampling))
        return at.transcript()

    def _first(self, task: Task, tools: Toolset, seen: ToolResult) -> list[Message]:
        system = self.prompts.system(task, self.format.described(tools.specs)).strip()
        first = [Message("system", system)] if system else []
        shown, _ = self._cut(seen)
        told = _joined(ToolResult(self.prompts.instance(task).strip()), shown)
        return [*first, Message("user", told.text, images=told.images)]

    def _turn(self, at: Attempt, tools: Toolset, policy: Policy, sampling: Sampling) -> str:
        """One reply, its calls, one observation. The reason to stop, or empty."""
        said = at.ask(policy, sampling)
        if said is None:
            return "token_limit"
        try:
            calls = self.format.parse(said)
        except FormatError as error:
            told = ToolResult(self.prompts.format_error(str(error)))
            return at.refuse(self.format.answers(said, [told]))
        began = time.monotonic()
        results = _make(tools, calls)
        took = time.monotonic() - began
        stopped = results[-1].stop
        cut = [self._cut(result) for result in results]
        shown, size = [_spoken(result) for result, _ in cut], sum(len(r.text.encode()) for r in results)
        if not stopped:
            seen, _ = self._cut(tools.observe())
            shown[-1] = _joined(shown[-1], seen) if seen.text or seen.images else shown[-1]
        at.end(
            () if stopped else self.format.answers(said, shown),
            action="\n".join(map(literals.write, calls[: len(results)])),
            executed=_executed(results, took, size, sum(left_out for _, left_out in cut)),
        )
        return "submitted" if stopped else ""

    def _cut(self, result: ToolResult) -> tuple[ToolResult, int]:
        """Valid text, its first and last halves if it exceeds `observation_chars`; how many bytes were left out."""
        text = result.text.encode(errors="replace").decode()
        most = self.config.observation_chars
        if len(text) <= most:
            return replace(result, text=text), 0
        half = most // 2
        left_out = text[half : len(text) - half]
        text = f"{text[:half]}\n[{len(left_out)} characters cut]\n{text[len(text) - half :]}"
        return replace(result, text=text), len(left_out.encode())


def _make(tools: Toolset, calls: tuple[ToolCall, ...]) -> list[ToolResult]:
    """Call in order; what follows a call that ends the attempt is not made."""
    results: list[ToolResult] = []
    for call in calls:
        results.append(tools.call(call))
        if results[-1].stop:
            break
    return results


def _spoken(result: ToolResult) -> ToolResult:
    """What went wrong is said, if only by its code."""
    return result if result.text or result.code == "ok" else replace(result, text=f"[{result.code}]")


def _joined(first: ToolResult, then: ToolResult) -> ToolResult:
    text = "\n\n".join(part for part in (first.text, then.text) if part)
    return replace(first, text=text, images=first.images + then.images)


def _executed(results: list[ToolResult], wall_s: float, size: int, left_out: int) -> Executed:
    codes = tuple(result.code for result in results)
    wrong = next((code for code in codes if code != "ok"), "ok")
    return Executed(None, wrong, round(wall_s, 4), size, left_out, codes)
