"""Nothing is lost without being counted: sampled = trained + Σ masked(reason) + Σ dropped(reason).

All four are tokens that a policy wrote. Tokens that came from templates and environments are context: they are
read and never learned, and counted apart.
"""

from collections import Counter
from dataclasses import dataclass, field

from ..errors import RunError
from ..trajectory import Trajectory
from .example import Example, Tokens

_CONTEXT = ("template", "environment")


@dataclass
class Account:
    """Counts tokens as they come in and as they end; `check` compares."""

    sampled: int = 0
    trained: int = 0
    masked: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    context: int = 0  # in kept sequences
    kept: int = 0  # sequences
    left_out: Counter[str] = field(default_factory=Counter)  # sequences or attempts, by reason

    def open(self, sampled: int) -> None:
        """Tokens came in. Their end is told by `keep` or `drop`."""
        self.sampled += sampled

    def keep(self, example: Example) -> None:
        """A sequence is learned from; its own masks say where its tokens went."""
        at = 0
        for length, reason in example.masks:
            if not reason:
                self.trained += sum(w > 0 for w in example.weights[at : at + length])
            elif reason in _CONTEXT:
                self.context += length
            else:
                self.masked[reason] += length
            at += length
        self.kept += 1

    def drop(self, sampled: int, reason: str) -> None:
        """A whole sequence is left out."""
        self.dropped[reason] += sampled
        self.left_out[reason] += 1

    def check(self) -> None:
        """Raises `RunError` if a token came in and did not end, or ended twice."""
        ended = self.trained + self.masked.total() + self.dropped.total()
        if self.sampled != ended:
            raise RunError(
                f"token account does not close: sampled {self.sampled}, trained {self.trained}, masked "
                f"{dict(self.masked)}, dropped {dict(self.dropped)}",
                hint="this is a fault in orchard or in a trajectory file; `orchard traj verify` checks the latter",
            )

    def __add__(self, other: "Account") -> "Account":
        return Account(
            self.sampled + other.sampled,
            self.trained + other.trained,
            self.masked + other.masked,
            self.dropped + other.dropped,
            self.context + other.context,
            self.kept + other.kept,
            self.left_out + other.left_out,
        )

    def record(self) -> dict[str, object]:
        """For events and reports: plain JSON."""
        return {
            "sampled": self.sampled,
            "trained": self.trained,
            "masked": dict(self.masked),
            "dropped": dict(self.dropped),
            "context": self.context,
            "sequences": self.kept,
            "left_out": dict(self.left_out),
        }


def written(trajectory: Trajectory, found: list[Tokens]) -> int:
    """Tokens that the policy wrote in an attempt: exact where there are tokens, else as its endpoint counted."""
    return sum(t.sampled for t in found) if found else trajectory.usage.completion_tokens
