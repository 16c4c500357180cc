"""Everything that one server holds, put together."""

import asyncio
import hashlib
import os
import secrets
import socket
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from filelock import FileLock, Timeout

from ...errors import ConfigError
from ..network.endpoint import ModelEndpoint
from ..sandbox import Env
from .adoption import take_over
from .audit import Audit
from .bus import Bus
from .fleet import Fleet
from .keys import Keys
from .live import Live, Terms
from .metrics import Metrics
from .once import Once
from .specs import Images, SameHost, Specs
from .store.sqlite import SqliteStore
from .store.store import Store
from .tokens import Tokens
from .trees import Trees
from .upkeep import DEAD_S, Upkeep


@dataclass(frozen=True)
class Settings:
    """`state` belongs to one server. `database`: a PostgreSQL that several share; else SQLite in `state`."""

    state: Path
    root_key: str = ""
    auth: bool = True
    database: str = ""
    name: str = ""
    images: dict[str, str] = field(default_factory=lambda: {"host": "host"})
    models: dict[str, ModelEndpoint] = field(default_factory=dict)  # by address
    terms: Terms = Terms()
    max_body: int = 64 << 20
    upkeep_s: float = 1.0
    url: str = ""  # where others reach this server
    dead_s: float = DEAD_S  # a server that has not written to a shared store for so long is dead

    def __post_init__(self) -> None:
        if self.database and not self.database.startswith(("postgresql://", "postgres://")):
            kind = self.database.partition("://")[0]  # the rest may hold a password
            raise ConfigError(f"--database: `{kind}` is no store that servers can share", hint="postgresql://HOST/NAME")


class Service:
    """Made by `open`, inside the event loop that serves it."""

    def __init__(self, env: Env, settings: Settings, store: Store, lock: FileLock):
        state = settings.state
        self.settings, self.store, self._lock = settings, store, lock
        self.metrics, self.bus = Metrics(), Bus()
        self.audit = Audit(state / "audit.jsonl", self.metrics)
        self.keys = Keys(store, settings.root_key)
        own = _secret(state / "digest-key")
        # Servers that share a store must agree; what they share besides it is the operator's key.
        secret = _derived(settings.root_key) if settings.database and settings.root_key else own
        self.once = Once(store, secret)
        self.tokens = Tokens(self.keys, secret)
        self.trees = Trees(state / "trees")
        self.host = SameHost(state)
        self.specs = Specs(Images(settings.images), self.trees, self.host, settings.models)
        server = settings.name or f"{socket.gethostname()}-{secrets.token_hex(4)}"
        self.fleet = Fleet(env, store, self.specs, self.bus, self.metrics, settings.terms, server)
        self.fleet.shared = bool(settings.database)
        self.upkeep = Upkeep(
            self.fleet, settings.upkeep_s, alone=not settings.database, url=settings.url, dead_s=settings.dead_s
        )
        self.busy: Counter[str] = Counter()  # commands that run, by key
        self.streams = 0
        self.adopted = 0  # sandboxes taken over from a server that crashed

    @classmethod
    async def open(cls, env: Env, settings: Settings) -> "Service":
        """Raises `ConfigError` if another server uses the state folder, `SandboxError` if the store fails."""
        usable(settings.state)
        lock = FileLock(settings.state / "lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise ConfigError(
                f"another server uses {settings.state}", hint="stop it, or give this one its own --state"
            ) from None
        try:
            store = await _open_store(settings)
            service = cls(env, settings, store, lock)
            service.adopted = await take_over(service.fleet, service._again_busy)
            await service.upkeep.start()
        except BaseException:
            lock.release()
            raise
        return service

    def _again_busy(self, live: Live) -> Callable[[object], None]:
        self.busy[live.key] += 1
        return lambda _: self.busy.subtract([live.key])

    async def close(self) -> None:
        """Ends every sandbox of this server."""
        self.fleet.stopping = True
        self.bus.close()
        await self.fleet.close()
        await self.upkeep.stop()
        await self.store.close()
        self.audit.close()
        await asyncio.to_thread(self._lock.release)

    @property
    def ready(self) -> dict[str, bool]:
        """What must hold for this server to take work."""
        return {"store": self.upkeep.healthy, "audit": self.audit.ok, "open": not self.fleet.stopping}


def usable(state: Path) -> None:
    """The folder is there and can be written. Raises `ConfigError`."""
    try:
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=state):
            pass
    except OSError as error:
        said = "it is a file" if state.is_file() else error.strerror or str(error)
        raise ConfigError(
            f"--state {state} cannot be used: {said}", hint="name a folder that this user can write"
        ) from error


async def _open_store(settings: Settings) -> Store:
    if not settings.database:
        return SqliteStore(settings.state / "store.sqlite")
    from .store.postgres import PostgresStore

    return await PostgresStore.open(settings.database)


def _derived(root_key: str) -> bytes:
    return hashlib.blake2b(root_key.encode(), person=b"orchard-once", digest_size=32).digest()


def _secret(path: Path) -> bytes:
    """Made once; without it, digests of request bodies say nothing."""
    if path.exists():
        return path.read_bytes()
    value = secrets.token_bytes(32)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(value)
    return value
