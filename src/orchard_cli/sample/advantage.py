"""From the rewards of a group to one advantage for each of its attempts.

Attempts whose outcome does not count have no reward and are not here at all: removing them changes no bit.
"""

import math
from collections.abc import Sequence

from ..errors import ConfigError

DELTA = 1e-6


def advantages(
    rewards: Sequence[float], pool: Sequence[float], *, baseline: str, scale: str, tolerance: float = 1e-6
) -> tuple[float, ...] | None:
    """advantages_G of rewards_G; None if the group's rewards are all the same (max − min < tolerance).

    baseline: group, the mean of the kept group (GRPO, 2402.03300), or all_sampled, the mean of `pool`, everything
    that was drawn and counts (Reinforce-Ada, 2510.04996). scale: std, divided by the sample deviation (n − 1) of
    the same rewards, or none (Dr. GRPO, 2503.20783). Sums are exact (fsum), so no order of attempts changes a bit.
    """
    if not rewards or max(rewards) - min(rewards) < tolerance:
        return None
    if baseline not in ("group", "all_sampled"):
        raise ConfigError(f"rl.baseline is `{baseline}`", hint="rl.baseline is group or all_sampled")
    if scale not in ("std", "none"):
        raise ConfigError(f"rl.scale is `{scale}`", hint="rl.scale is std or none")
    base = rewards if baseline == "group" else pool
    mean = math.fsum(base) / len(base)
    divisor = 1.0
    if scale == "std":
        divisor = math.sqrt(math.fsum((r - mean) ** 2 for r in base) / (len(base) - 1)) + DELTA
    return tuple((r - mean) / divisor for r in rewards)
