"""What one sandbox has of the network: its proxy and its model socket, at ports that are always the same."""

import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ...errors import ConfigError, SandboxError
from .canary import Canary
from .endpoint import ModelEndpoint
from .log import Decision, DecisionLog
from .meter import Caps
from .model import CAPS
from .network import Gate, Network
from .plan import Bound
from .rules import Policy

# Above the ports that Linux hands out by itself, so that nothing inside is in the way.
PROXY_PORT, MODEL_PORT = 61080, 61081
LOCAL = "localhost,127.0.0.1,::1"


class Listens(Protocol):
    """A sandbox as far as its network goes."""

    @property
    def id(self) -> str: ...

    def prove(self, canaries: Sequence[Canary]) -> None: ...

    def listen(self, port: int, canaries: Sequence[Canary]) -> socket.socket:
        """After proof. Of another family than the internet's it serves a relay that has `port` inside."""
        ...


@dataclass(frozen=True)
class Ways:
    """`env` are the variables by which programs inside find them."""

    sandbox: str
    bound: Bound
    egress: Gate | None = None
    model: Gate | None = None
    env: dict[str, str] = field(default_factory=dict)
    log: DecisionLog | None = None

    def decisions(self) -> tuple[Decision, ...]:
        """What its proxy and its model socket have decided lately, oldest first."""
        return self.log.last(self.sandbox) if self.log else ()

    def change(self, network: str, allow: tuple[str, ...] = ()) -> int:
        """Other rules from now on, within what the environment allows; returns how many connections they ended.

        Raises `SandboxError`: `client.bad_spec` for rules that cannot be, or where there is no proxy to obey them,
        `client.closed`.
        """
        try:
            self.bound.check(network, allow)
            host, policy = self.bound.of(network, allow)
            if host or self.egress is None:
                message = "the sandbox was made without a proxy, so it can have no other rules"
                raise ConfigError(message, hint="open it with network=allowlist")
        except ConfigError as error:
            raise bad_spec(error) from error
        if self.egress.closed:
            raise SandboxError("this sandbox is closed", code="client.closed", attributable="client", retry="never")
        return self.egress.update(policy)

    def close(self) -> None:
        for gate in (self.egress, self.model):
            if gate is not None:
                gate.close()


def attach(
    network: Network,
    sandbox: Listens,
    policy: Policy,
    bound: Bound,
    endpoint: ModelEndpoint | None,
    canaries: Sequence[Canary],
    *,
    caps: Caps | None = None,
    model_caps: Caps = CAPS,
) -> Ways:
    """Open what a sandbox was given, each after proof that it reaches none of `canaries`.

    Raises `SandboxError(code="isolation_not_proven")`, and `ConfigError` for a model without its key.
    """
    egress = model = None
    env: dict[str, str] = {}
    if policy.kind != "none":
        egress = network.egress(sandbox.listen(PROXY_PORT, canaries), sandbox.id, policy, caps)
        env |= proxy_env(egress)
    try:
        if endpoint is not None:
            endpoint.key()
            model = network.model(sandbox.listen(MODEL_PORT, canaries), sandbox.id, endpoint, model_caps)
            env |= model_env(model, endpoint)
    except BaseException:
        if egress is not None:
            egress.close()
        raise
    return Ways(sandbox.id, bound, egress, model, env, network.log)


def bad_spec(error: ConfigError) -> SandboxError:
    return SandboxError(
        str(error), code="client.bad_spec", attributable="client", effect="none", retry="never", hint=error.hint
    )


def proxy_env(gate: Gate) -> dict[str, str]:
    """The names by which curl, git, pip, npm and most libraries look for a proxy."""
    url = f"http://127.0.0.1:{gate.address[1] or PROXY_PORT}"
    words = {"HTTP_PROXY": url, "HTTPS_PROXY": url, "ALL_PROXY": url, "NO_PROXY": LOCAL}
    return {**words, **{key.lower(): value for key, value in words.items()}}


def model_env(gate: Gate, endpoint: ModelEndpoint) -> dict[str, str]:
    """Where the model is, also by the names that common clients read; their key is a word without meaning."""
    root = f"http://127.0.0.1:{gate.address[1] or MODEL_PORT}"
    url = root + endpoint.base
    return {
        "ORCHARD_MODEL_URL": url,
        "OPENAI_BASE_URL": url,
        "OPENAI_API_KEY": "unused",
        "ANTHROPIC_BASE_URL": url.removesuffix("/v1"),
        "ANTHROPIC_API_KEY": "unused",
        "NO_PROXY": LOCAL,
        "no_proxy": LOCAL,
    }
