"""New families by a model: it writes a page, and writes it again on the evidence of what was wrong with it."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from orchard_cli.policy.policy import Policy, Sampling
from orchard_cli.trajectory import Message, Usage

from .tasks.reading import FieldError, parse

PROMPT = Path(__file__).with_name("prompts") / "synth" / "propose.md"
FORMAT = Path(__file__).with_name("README.md")
WORLD = Path(__file__).parent / "world" / "README.md"
_FENCE = re.compile(r"^```(?:yaml|yml)?[ \t]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
SAMPLING = Sampling(temperature=1.0, max_tokens=4096, max_context=65_536)


class Writer:
    """One conversation about one family. `usage` is what it has cost so far."""

    def __init__(self, policy: Policy, example: str, names: Sequence[str], seed: int):
        format = FORMAT.read_text().partition("## Write a task")[2]
        said = PROMPT.read_text().format(
            format=format, world=WORLD.read_text(), example=example, names=", ".join(names)
        )
        self._messages = [Message("user", said)]
        self._policy, self._seed = policy, seed
        self.usage = Usage()

    def page(self) -> dict[str, Any]:
        """The next page. Raises `FieldError` if the reply holds none, `PolicyError` if the model fails."""
        sampling = Sampling(SAMPLING.temperature, 1.0, SAMPLING.max_tokens, SAMPLING.max_context, self._seed)
        reply = self._policy.reply(self._messages, sampling=sampling)
        self.usage += reply.usage
        self._messages.append(reply.message)
        found = _FENCE.findall(reply.message.content)
        if len(found) != 1:
            raise FieldError("", f"the reply holds {len(found)} blocks of YAML instead of one")
        return parse(found[0])

    def refine(self, evidence: Sequence[str]) -> None:
        """Say what was wrong with the last page."""
        lines = "\n".join(f"- {line}" for line in evidence)
        self._messages.append(Message("user", f"This does not hold yet:\n{lines}\nWrite the whole page again."))
