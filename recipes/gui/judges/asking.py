"""Asking a model for a verdict: prompts from files, pictures after the text, a few tries, and no zero for a failure."""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import jinja2

from orchard_cli.errors import DataError, GradeError, PolicyError
from orchard_cli.policy.policy import Policy, Sampling
from orchard_cli.trajectory import Message, Usage

from .evidence import Shot

T = TypeVar("T")
TRIES = 3
SEED = 42  # as WebVoyager's judge
SHOWN = 4000  # characters of a page's text


class Asking:
    """One judge's way to its model. `usage` adds up what was asked, also in vain; make one for each verdict."""

    def __init__(self, policy: Policy, *, tries: int = TRIES, max_tokens: int = 1024):
        self.policy, self.tries, self.max_tokens = policy, tries, max_tokens
        self.usage = Usage()

    def ask(
        self, name: str, read: Callable[[str], T | None], shots: Sequence[Shot] = (), **words: Any
    ) -> tuple[T, str]:
        """(what `read` made of the reply, the reply). Raises `GradeError` after `tries` replies that say nothing, or
        when the model cannot be reached: the verdict is unknown then, never a failure of the agent.
        """
        system, user = prompt(name, shots=[s.text[-SHOWN:] for s in shots if not s.image], **words)
        images = tuple(shot.image for shot in shots if shot.image)
        messages = [*([Message("system", system)] if system else []), Message("user", user, images=images)]
        said = ""
        for number in range(self.tries):
            said = self._reply(messages, SEED + number)
            if (found := read(said)) is not None:
                return found, said
        raise GradeError(
            f"the judge gave no verdict in {self.tries} replies; the last: {' '.join(said.split())[:200]!r}",
            code="judge.no_verdict",
        )

    def _reply(self, messages: Sequence[Message], seed: int) -> str:
        sampling = Sampling(temperature=0.0, max_tokens=self.max_tokens, max_context=128_000, seed=seed)
        try:
            reply = self.policy.reply(messages, sampling=sampling)
        except PolicyError as error:
            fault = error.fault
            raise GradeError(
                f"the judge failed: {error}",
                code=f"judge.{fault.code}",
                attributable="client" if fault.attributable == "client" else "infra",  # never the agent's
                effect=fault.effect,
                retry=fault.retry,
                hint=error.hint,
            ) from error
        except DataError as error:
            raise GradeError(f"the judge failed: {error}", code="judge.no_picture", retry="never") from error
        self.usage += reply.usage
        return reply.message.content


def prompt(name: str, **words: Any) -> tuple[str, str]:
    """(system, user) of `prompts/<name>.md`, whose first line `---` parts the two."""
    system, user = (template.render(**words).strip() for template in _templates(name))
    return system, user


@cache
def _templates(name: str) -> tuple[jinja2.Template, jinja2.Template]:
    text = Path(__file__).with_name("prompts").joinpath(f"{name}.md").read_text("utf-8")
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False, trim_blocks=True)  # noqa: S701
    system, _, user = text.partition("\n---\n")
    return environment.from_string(system), environment.from_string(user)
