"""Who may do what: API keys, their scopes, tenants and quotas. Only hashes of keys are kept."""

import hashlib
import hmac
import secrets
import time
from dataclasses import dataclass

from .bodies import KeyBody, KeyView
from .problem import refused
from .store.store import Record, Store

SCOPES = ("read", "use", "create", "admin")
PREFIX = "orc"
TRUST_S = 5.0  # how long a key stays good after another server withdrew it
CACHED = 4096


@dataclass(frozen=True)
class Principal:
    """Whoever made a request. `admin` sees every tenant."""

    key: str
    tenant: str
    scopes: frozenset[str]
    max_sandboxes: int = 1_000_000
    max_execs: int = 1_000_000
    sandbox: str = ""  # of a token: the only one that it is for, when that was made, and what it may do there
    created: float = 0.0
    verbs: tuple[str, ...] = ()

    @property
    def admin(self) -> bool:
        return "admin" in self.scopes

    def require(self, scope: str) -> None:
        if scope not in self.scopes:
            raise refused(
                f"this key may not do that: it lacks the scope `{scope}`",
                "client.forbidden",
                hint="ask for a key with that scope",
            )


ROOT = Principal("root", "default", frozenset(SCOPES))
ANYONE = Principal("none", "default", frozenset(SCOPES))


class Keys:
    """`root` is the key that the server was started with: every scope, tenant `default`."""

    def __init__(self, store: Store, root: str = ""):
        self._store = store
        self._root = _digest(root) if root else b""
        self._good: dict[bytes, tuple[Principal, float]] = {}

    async def check(self, secret: str) -> Principal:
        """Whose key this is. Raises `client.no_key` and `client.wrong_key`."""
        if not secret:
            raise refused("an API key is needed", "client.no_key", hint="send `Authorization: Bearer <key>`")
        digest = _digest(secret)
        if self._root and hmac.compare_digest(digest, self._root):
            return ROOT
        found = self._good.get(digest)
        if found and found[1] > time.monotonic():
            return found[0]
        principal = await self._look_up(secret, digest)
        if len(self._good) >= CACHED:
            self._good.clear()
        self._good[digest] = (principal, time.monotonic() + TRUST_S)
        return principal

    async def known(self, id: str) -> Principal:
        """Whoever lent a token, by the id of their key. Raises `client.wrong_key` once that is withdrawn or over."""
        if id == "root" and self._root:
            return ROOT
        record = await self._store.get("key", id)
        if record is None or (record.expires and record.expires < time.time()):
            raise refused("the key that lent this token is no longer good", "client.wrong_key")
        return _principal(record)

    async def _look_up(self, secret: str, digest: bytes) -> Principal:
        prefix, _, rest = secret.partition("_")
        id = rest.partition("_")[0]
        record = await self._store.get("key", id) if prefix == PREFIX and id else None
        wanted = bytes.fromhex(record.body["digest"]) if record else bytes(32)
        same = hmac.compare_digest(digest, wanted)
        if record is None or not same or (record.expires and record.expires < time.time()):
            raise refused("this API key is not known here", "client.wrong_key", hint="check the key and the address")
        return _principal(record)

    async def make(self, body: KeyBody) -> KeyView:
        """A new key; the only time its secret is seen."""
        if wrong := set(body.scopes) - set(SCOPES):
            raise refused(f"no such scope: {', '.join(sorted(wrong))}", "client.bad_request", hint=", ".join(SCOPES))
        if not body.tenant.isidentifier() and not body.tenant.replace("-", "_").isidentifier():
            raise refused("a tenant is named by letters, digits, `-` and `_`", "client.bad_request")
        id = secrets.token_hex(6)
        secret = f"{PREFIX}_{id}_{secrets.token_urlsafe(32)}"
        kept = {
            "digest": _digest(secret).hex(),
            "name": body.name,
            "scopes": list(body.scopes),
            "max_sandboxes": body.max_sandboxes,
            "max_execs": body.max_execs,
        }
        expires = time.time() + body.ttl_s if body.ttl_s else 0.0
        record = Record("key", id, body.tenant, kept, expires=expires)
        await self._store.put(record, expect=0)
        return _view(record, secret)

    async def list(self) -> tuple[KeyView, ...]:
        return tuple(_view(record) for record in await self._store.page("key", limit=10_000))

    async def withdraw(self, id: str) -> None:
        if not await self._store.delete("key", id):
            raise refused(f"there is no key {id}", "client.no_such_key")
        self._good = {digest: held for digest, held in self._good.items() if held[0].key != id}


def _principal(record: Record) -> Principal:
    body = record.body
    return Principal(record.id, record.tenant, frozenset(body["scopes"]), body["max_sandboxes"], body["max_execs"])


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def _view(record: Record, secret: str = "") -> KeyView:
    body = record.body
    return KeyView(
        id=record.id,
        tenant=record.tenant,
        name=body["name"],
        scopes=tuple(body["scopes"]),
        max_sandboxes=body["max_sandboxes"],
        max_execs=body["max_execs"],
        expires=record.expires,
        secret=secret,
    )
