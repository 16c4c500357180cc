"""`env=remote` by the settings: the server must be reached, take the key and isolate as was asked."""

import os
from collections.abc import Mapping

from ... import schema
from ...errors import ConfigError, SandboxError
from ..network.plan import LEVELS
from ..sandbox import Limits
from .env import RemoteEnv


def open_remote(cfg: schema.Env) -> RemoteEnv:
    """Raises `ConfigError` if the server cannot be reached, refuses the key or isolates less than was asked for."""
    if not cfg.url:
        raise ConfigError(
            "env=remote needs to know the server", hint="env.url=http://HOST:PORT, of `orchard env serve`"
        )
    key = os.environ.get(cfg.api_key_env, "") if cfg.api_key_env else ""
    if cfg.network not in LEVELS:
        raise ConfigError(f"env.network={cfg.network} is not known", hint=f"one of {', '.join(LEVELS)}")
    limits = Limits(cfg.memory_mb, cfg.pids, cfg.cpus, cfg.disk_mb)
    try:
        env = RemoteEnv(cfg.url, key, limits=limits, network=cfg.network, allow=tuple(cfg.allow))  # type: ignore[arg-type]
    except SandboxError as error:
        wants_key = error.fault.code in ("client.no_key", "client.wrong_key")
        hint = f"put the key into the variable {cfg.api_key_env} (env.api_key_env)" if wants_key else error.hint
        raise ConfigError(f"{cfg.url}: {error}", hint=hint) from error
    try:
        _enough(cfg, env.describe())
    except ConfigError:
        env.close()
        raise
    return env


def _enough(cfg: schema.Env, proven: Mapping[str, object]) -> None:
    """The server isolates as was asked, and may open as much of the network. Raises `ConfigError`."""
    isolation, network = str(proven.get("isolation")), str(proven.get("network"))
    wanted = {"auto": "", "process": "none"}.get(cfg.isolation, cfg.isolation)
    if (wanted or isolation) != isolation or (not wanted and isolation == "none"):
        hint = "env.isolation=process takes it as it is" if isolation == "none" else "another server, or isolation=auto"
        raise ConfigError(f"the server at {cfg.url} isolates by `{isolation}`, not as env.isolation asks", hint=hint)
    if isolation != "none" and LEVELS.index(network) < LEVELS.index(cfg.network):
        raise ConfigError(
            f"the server at {cfg.url} gives its sandboxes network={network} at most, not env.network={cfg.network}",
            hint=f"another server, or env.network={network}",
        )
