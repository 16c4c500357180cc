"""Places where sandboxes run. `open_env` imports the chosen one on use."""

from .. import schema
from ..errors import ConfigError
from .sandbox import Env

KINDS = ("local", "remote")


def open_env(cfg: schema.Env) -> Env:
    """The environment that the settings name. Raises `ConfigError` if isolation cannot be proven here."""
    if cfg.kind == "local" and cfg.isolation in ("gvisor", "container"):
        from .contained.choose import open_contained

        return open_contained(cfg)
    if cfg.kind == "local":
        from .local.local import open_local

        return open_local(cfg)
    if cfg.kind == "remote":
        from .remote.settings import open_remote

        return open_remote(cfg)
    raise ConfigError(f"env.kind={cfg.kind} is not known", hint=f"one of {', '.join(KINDS)}")
