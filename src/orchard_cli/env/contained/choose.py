"""Which runtime a word of `env.isolation` stands for, here."""

from ... import schema
from ...errors import ConfigError
from ..sandbox import Limits
from .env import ContainedEnv, Make
from .gvisor import HINT as GVISOR_HINT
from .gvisor import Gvisor
from .podman import HINT as ENGINE_HINT
from .podman import Podman

TIERS: dict[str, tuple[Make, str]] = {"gvisor": (Gvisor, GVISOR_HINT), "container": (Podman, ENGINE_HINT)}


def contained(isolation: str, network: str = "none", limits: Limits | None = None) -> ContainedEnv:
    """Raises `ConfigError` where that tier cannot be proven."""
    if isolation not in TIERS:
        raise ConfigError(f"env.isolation={isolation} is not known", hint=", ".join(TIERS))
    make, hint = TIERS[isolation]
    return ContainedEnv(make, hint, network, limits or Limits())


def open_contained(cfg: schema.Env) -> ContainedEnv:
    if cfg.allow:
        raise ConfigError(f"env.isolation={cfg.isolation} has no way out for env.allow", hint="env.isolation=bwrap")
    return contained(cfg.isolation, cfg.network, Limits(cfg.memory_mb, cfg.pids, cfg.cpus, cfg.disk_mb))
