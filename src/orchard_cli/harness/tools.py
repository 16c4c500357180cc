"""The toolset protocol: what an agent can do in one attempt, when it is more than a shell.

A browser, a set of services, an MCP server: each is a `Toolset`, bound to one sandbox; `ReactLoop`
lets a policy use it.
"""

from dataclasses import dataclass
from typing import Any, Protocol

from ..trajectory import ToolCall


@dataclass(frozen=True)
class ToolResult:
    """What one call came to, or what there is to see.

    `text` is shown to the policy. `code` is `ok`, or a word for what was wrong with the call (`unknown_tool`,
    `bad_arguments`, `no_such_element`, …); a tool that the policy used wrongly is never a fault. `images` are content
    hashes of pictures in the run's blob store. `stop` ends the attempt: the policy said that it is done.
    """

    text: str = ""
    code: str = "ok"
    images: tuple[str, ...] = ()
    stop: bool = False


class Toolset(Protocol):
    """The tools of one attempt. Methods raise `AttemptError` only for what the policy did not do."""

    specs: tuple[dict[str, Any], ...]  # JSON-schema function tools, as chat endpoints take them

    def open(self) -> ToolResult:
        """Make everything ready; what the policy sees beside its prompt, before its first turn."""
        ...

    def call(self, call: ToolCall) -> ToolResult:
        """Do one thing. Hostile arguments are answered with a code."""
        ...

    def observe(self) -> ToolResult:
        """The state after all calls of a turn (a page, say); empty where results say it all."""
        ...

    def close(self) -> None:
        """Drop connections. What runs in the sandbox goes on, for `Domain.export` may ask it for its end state."""
        ...
