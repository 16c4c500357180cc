"""How an attempt ended, and which endings may carry a reward."""

from enum import StrEnum


class Outcome(StrEnum):
    """The seven endings. The last three say nothing about the policy and never get a reward."""

    SOLVED = "solved"
    UNSOLVED = "unsolved"
    TRUNCATED = "truncated"  # a step, time or token limit cut the attempt
    POLICY_INVALID = "policy_invalid"  # the policy kept answering what the harness cannot parse
    INFRA_ERROR = "infra_error"
    VERIFIER_ERROR = "verifier_error"
    CANCELLED = "cancelled"

    @property
    def counts(self) -> bool:
        """True if the attempt says something about the policy: it has a reward and enters statistics."""
        return self not in (Outcome.INFRA_ERROR, Outcome.VERIFIER_ERROR, Outcome.CANCELLED)
