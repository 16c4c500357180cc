"""Which runtime a word of `env.isolation` stands for, here."""

from pathlib import Path

from ... import schema
from ...errors import ConfigError
from ..local.lasting import Lasting
from ..local.local import LocalEnv
from ..sandbox import Limits
from .env import ContainedEnv
from .gvisor import HINT as GVISOR_HINT
from .gvisor import Gvisor
from .making import Make
from .podman import HINT as ENGINE_HINT
from .podman import Podman

HERE = ("auto", "bwrap", "process")
TIERS: dict[str, tuple[Make, str]] = {"gvisor": (Gvisor, GVISOR_HINT), "container": (Podman, ENGINE_HINT)}


def contained(
    isolation: str,
    network: str = "none",
    limits: Limits | None = None,
    *,
    allow: tuple[str, ...] = (),
    network_log: Path | None = None,
    lasting: Lasting | None = None,
) -> ContainedEnv:
    """Raises `ConfigError` where that tier cannot be proven."""
    if isolation not in TIERS:
        raise ConfigError(f"env.isolation={isolation} is not known", hint=", ".join(TIERS))
    make, hint = TIERS[isolation]
    return ContainedEnv(make, hint, network, limits or Limits(), allow=allow, network_log=network_log, lasting=lasting)


def any_tier(
    isolation: str = "auto",
    network: str = "none",
    allow: tuple[str, ...] = (),
    lasting: Lasting | None = None,
    network_log: Path | None = None,
) -> LocalEnv | ContainedEnv:
    """Any word of `env.isolation`. Raises `ConfigError` for what that tier has not, or cannot prove."""
    if isolation not in (*HERE, *TIERS):
        raise ConfigError(f"env.isolation={isolation} is not known", hint=f"one of {', '.join((*HERE, *TIERS))}")
    if isolation in HERE:
        return LocalEnv(isolation, network, allow=allow, lasting=lasting, network_log=network_log)
    return contained(isolation, network, allow=allow, lasting=lasting, network_log=network_log)


def open_contained(cfg: schema.Env) -> ContainedEnv:
    limits = Limits(cfg.memory_mb, cfg.pids, cfg.cpus, cfg.disk_mb)
    log = Path(cfg.network_log) if cfg.network_log else None
    return contained(cfg.isolation, cfg.network, limits, allow=tuple(cfg.allow), network_log=log)
