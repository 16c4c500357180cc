"""A task: the data of one problem, frozen. What a domain does with it lives in the domain."""

from typing import Any, Literal

import msgspec

Split = Literal["train", "eval"]


class Task(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One problem.

    `prompt` is all that the agent is told. `data` is what the domain needs to build the sandbox; `hidden` is
    for the grader and the oracle alone and never enters a prompt or the agent's sandbox. Both hold JSON values.
    """

    id: str
    domain: str
    prompt: str
    split: Split = "train"
    family: str = ""  # the row of the per-family table
    data: dict[str, Any] = {}
    hidden: dict[str, Any] = {}
