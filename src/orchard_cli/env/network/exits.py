"""What an environment needs for the network of its sandboxes: its bound, its canaries and, on use, its proxy."""

import socket
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from ...errors import ConfigError
from ..sandbox import Spec
from .canary import Canaries, Canary
from .log import DecisionLog
from .network import Network
from .plan import bound
from .rules import Policy
from .ways import Listens, Ways, attach, bad_spec


class Takes(Listens, Protocol):
    def adopt(self, ways: Ways) -> None: ...

    def close(self) -> None: ...


class Exits:
    """Raises `ConfigError` for settings that do not go together, or that cannot hold without isolation."""

    def __init__(self, network: str, allow: tuple[str, ...], *, isolated: bool, log: Path | None = None):
        if not isolated and network in ("allowlist", "open"):
            raise ConfigError(f"env.network={network} cannot hold without isolation", hint="env.isolation=bwrap")
        self._bound, self._isolated, self._log_path = bound(network, allow), isolated, log
        self._canaries = Canaries()
        self._network: Network | None = None
        self._lock = threading.Lock()

    @property
    def level(self) -> str:
        """What a sandbox has that asks for nothing."""
        return self._bound.level if self._isolated else "host"

    @property
    def network(self) -> Network:
        with self._lock:
            if self._network is None:
                self._network = Network(DecisionLog(self._log_path))
            return self._network

    def of(self, spec: Spec) -> tuple[bool, Policy]:
        """(the machine's own network?, rules of the proxy). Raises `SandboxError` for what it may not have."""
        try:
            if self._isolated:
                return self._bound.of(spec.network, spec.allow)
            if spec.network in ("allowlist", "open") or spec.allow:
                raise ConfigError("network rules cannot hold without isolation", hint="env.isolation=bwrap")
            return True, Policy()
        except ConfigError as error:
            raise bad_spec(error) from error

    def check(self, spec: Spec) -> None:
        """As `of`; refuses rules, too, that could let nothing through."""
        self.of(spec)
        if self._isolated:
            try:
                self._bound.check(spec.network, spec.allow)
            except ConfigError as error:
                raise bad_spec(error) from error

    def attach(self, sandbox: Listens, spec: Spec) -> Ways:
        """Prove, then open what the sandbox was given. Raises `SandboxError`; nothing is left open then."""
        host, policy = self.of(spec)
        if host and spec.model is None:
            return Ways(sandbox.id, self._bound)
        try:
            if policy.kind == "none" and spec.model is None:
                sandbox.prove(self._canaries.all)
                return Ways(sandbox.id, self._bound)
            inside: Listens = OnHost(sandbox.id) if host else sandbox
            return attach(self.network, inside, policy, self._bound, spec.model, self._canaries.all)
        except ConfigError as error:
            raise bad_spec(error) from error

    def give(self, sandbox: Takes, spec: Spec) -> None:
        """`attach`, and the sandbox told of it; closed if it cannot have what the spec asks for."""
        try:
            sandbox.adopt(self.attach(sandbox, spec))
        except BaseException:
            sandbox.close()
            raise

    def close(self) -> None:
        self._canaries.close()
        if self._network is not None:
            self._network.close()


class OnHost:
    """Where a sandbox shares this machine's network there is nothing to prove, and the ports must be free ones."""

    def __init__(self, sandbox: str):
        self.id = sandbox

    def prove(self, canaries: Sequence[Canary]) -> None: ...

    def listen(self, port: int, canaries: Sequence[Canary]) -> socket.socket:
        return socket.create_server(("127.0.0.1", 0))
