"""One reply to be sampled, while it grows, and what comes of it."""

import math
from concurrent.futures import Future
from dataclasses import dataclass, field

import numpy as np

from ..trajectory import Shown
from .prefixes import Key


@dataclass(frozen=True)
class Sampled:
    """ids: sampled tokens, a stop token included; one natural-log probability each. version: of the weights."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    version: int


@dataclass
class Request:
    """prompt: token ids. known: how many of them may have been seen, as a whole prompt or conversation.
    draws: one number in [0, 1) for each token that may be sampled. stops: ids that end the reply. images: pictures
    in the prompt.
    """

    prompt: tuple[int, ...]
    known: int
    draws: np.ndarray
    temperature: float
    top_p: float
    stops: frozenset[int]
    images: tuple[Shown, ...] = ()
    result: "Future[Sampled]" = field(default_factory=Future)
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)

    @property
    def length(self) -> int:
        return len(self.prompt) + len(self.ids)

    def key(self, length: int) -> Key:
        """What the first `length` tokens are remembered by: placeholder tokens say nothing of their picture."""
        shas = (image.sha for image in self.images if image.start < length)
        return (*shas, *self.prompt[:length], *self.ids[: max(0, length - len(self.prompt))])

    @property
    def longest(self) -> int:
        return len(self.prompt) + len(self.draws)

    @property
    def broken(self) -> bool:
        return not math.isfinite(self.logprobs[-1])

    @property
    def ended(self) -> bool:
        return self.ids[-1] in self.stops or len(self.ids) == len(self.draws) or self.broken

    def sampled(self, version: int) -> Sampled:
        return Sampled(tuple(self.ids), tuple(self.logprobs), version)
