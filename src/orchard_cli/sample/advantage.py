"""From the rewards of a group to one advantage for each of its attempts.

Attempts whose outcome does not count have no reward and are not here at all: removing them changes no bit.
"""

import math
from collections.abc import Sequence

from ..errors import ConfigError

DELTA = 1e-6
BASELINES = ("group", "all_sampled", "length")


def advantages(
    rewards: Sequence[float],
    pool: Sequence[float],
    *,
    baseline: str,
    scale: str,
    lengths: Sequence[int] = (),
    tolerance: float = 1e-6,
) -> tuple[float, ...] | None:
    """advantages_G of rewards_G; None if the group's rewards are all the same (max − min < tolerance).

    baseline: group, the mean of the kept group (GRPO, 2402.03300); all_sampled, the mean of `pool`, everything that
    was drawn and counts (Reinforce-Ada, 2510.04996); or length, the mean of the kept group weighted by `lengths_G`
    in sampled tokens (OPO, 2505.23585): with one weight for each token it is the one whose updates do not push all
    that was sampled down where failures are longer than successes. scale: std, divided by the sample deviation
    (n − 1) of the same rewards, or none (Dr. GRPO, 2503.20783). Sums are exact (fsum), so no order of attempts
    changes a bit.
    """
    if not rewards or max(rewards) - min(rewards) < tolerance:
        return None
    if baseline not in BASELINES:
        raise ConfigError(f"rl.baseline is `{baseline}`", hint="rl.baseline is group, all_sampled or length")
    if scale not in ("std", "none"):
        raise ConfigError(f"rl.scale is `{scale}`", hint="rl.scale is std or none")
    base = pool if baseline == "all_sampled" else rewards
    mean = math.fsum(base) / len(base)
    if baseline == "length" and any(lengths):
        centre = math.fsum(r * n for r, n in zip(rewards, lengths, strict=True)) / sum(lengths)
    else:
        centre = mean
    divisor = 1.0
    if scale == "std":
        divisor = math.sqrt(math.fsum((r - mean) ** 2 for r in base) / (len(base) - 1)) + DELTA
    return tuple((r - centre) / divisor for r in rewards)
