"""Which network a sandbox gets: what its environment allows, and what it asks for itself."""

from dataclasses import dataclass, replace

from ...errors import ConfigError
from .rules import Policy, policy

LEVELS = ("none", "allowlist", "open", "host")


@dataclass(frozen=True)
class Bound:
    """What an environment gives to each of its sandboxes, and the most that one may ask for."""

    level: str
    policy: Policy

    def of(self, network: str, allow: tuple[str, ...]) -> tuple[bool, Policy]:
        """(the machine's own network?, rules of the proxy) for a sandbox. Raises `ConfigError` if it asks for more."""
        if network not in ("", *LEVELS):
            raise ConfigError(f"network={network} is not known", hint=f"one of {', '.join(LEVELS)}")
        if network in ("", "none"):
            if allow:
                raise ConfigError("a sandbox has rules, but not network=allowlist", hint="network=allowlist")
            return (False, Policy()) if network else (self.level == "host", self.policy)
        if LEVELS.index(network) > LEVELS.index(self.level):
            message = f"the sandbox asks for network={network}, but may have network={self.level} at most here"
            raise ConfigError(message, hint=f"allowed by env.network={network}, or `env serve --network {network}`")
        if network == "host":
            return True, Policy()
        own = policy("open" if network == "open" else "allowlist", allow)
        return False, own if self.level == "host" else replace(own, within=self.policy)

    def check(self, network: str, allow: tuple[str, ...]) -> None:
        """As `of`, and for rules which nothing could ever pass. One that is already so is left as it is."""
        if idle := self.of(network, allow)[1].idle():
            message = f"the sandbox asks for {', '.join(idle)}, which no rule here allows"
            raise ConfigError(message, hint="allowed by env.allow, or `env serve --allow RULE`")


def bound(network: str, allow: tuple[str, ...] = ()) -> Bound:
    """Raises `ConfigError` for words and rules that do not go together."""
    if network == "host":
        if allow:
            raise ConfigError("env.allow is set, but env.network=host knows no rules", hint="env.network=allowlist")
        return Bound(network, Policy())
    if network == "none":
        if allow:
            hint = "env.network=allowlist, or `env serve --network allowlist`"
            raise ConfigError("env.allow is set, but env.network=none", hint=hint)
        return Bound(network, policy("none", allow))
    if network == "allowlist":
        if not allow:
            hint = "env.allow='[example.org]', or --allow RULE"
            raise ConfigError("env.network=allowlist, but env.allow is empty", hint=hint)
        return Bound(network, policy("allowlist", allow))
    if network != "open":
        raise ConfigError(f"env.network={network} is not known", hint=f"one of {', '.join(LEVELS)}")
    return Bound(network, policy("open", allow))
