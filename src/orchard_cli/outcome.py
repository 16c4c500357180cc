"""How an attempt ended, and which endings may carry a reward."""

import math
from enum import StrEnum
from statistics import NormalDist


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


def wilson(solved: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson score interval of the solved share of `n` independent attempts; (0, 1) if there are none."""
    if n == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    p, z2 = solved / n, z * z
    middle = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = z * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return 0.0 if solved == 0 else middle - half, 1.0 if solved == n else middle + half
