"""Short-lived tokens: what a key's holder lends of it, for one sandbox, a few verbs and some minutes.

Nothing is written down: a token carries what it allows, under a keyed hash. It ends with its time, with its sandbox
(a later one of the same name is another), and with the key that it was lent from.
"""

import base64
import hashlib
import hmac
import time
from binascii import Error as NoBase64
from dataclasses import replace

import msgspec

from .bodies import TokenBody, TokenView
from .keys import Keys, Principal
from .live import Live
from .problem import refused

PREFIX = "ort_"
LONGEST_S = 86_400.0
# verb → parts of the path behind the sandbox's name that it opens
VERBS: dict[str, tuple[str, ...]] = {
    "look": ("",),
    "exec": ("execs",),
    "files": ("files", "names", "tar", "patch", "diff"),
    "ports": ("ports",),
    "lease": ("lease",),
    "network": ("network",),
    "fork": ("fork", "snapshots"),
}
BASE = "/v1/sandboxes/{id}"
ABOUT = "/v1/capabilities"  # open to every token: clients ask it first


class Lent(msgspec.Struct, frozen=True, array_like=True):
    """What is signed. `created` tells the sandbox from a later one of its name."""

    key: str
    tenant: str
    sandbox: str
    created: float
    verbs: tuple[str, ...]
    expires: float


class Tokens:
    """`secret` signs; servers that share clients share it."""

    def __init__(self, keys: Keys, secret: bytes):
        self._keys, self._secret = keys, secret

    def lend(self, body: TokenBody, who: Principal, live: Live) -> TokenView:
        """Raises `client.bad_request` for verbs or times that cannot be, `client.forbidden` for what `who` lacks."""
        if not body.verbs or (wrong := set(body.verbs) - VERBS.keys()):
            said = ", ".join(sorted(wrong)) if body.verbs else "none"
            raise refused(f"no such verbs: {said}", "client.bad_request", hint=", ".join(VERBS))
        if not 0 < body.ttl_s <= LONGEST_S:
            raise refused(f"`ttl_s` is above 0 and at most {LONGEST_S:.0f}", "client.bad_request")
        if who.sandbox:
            raise refused("a token lends no tokens", "client.forbidden")
        lent = Lent(who.key, live.tenant, live.id, live.created, body.verbs, time.time() + body.ttl_s)
        payload = msgspec.json.encode(lent)
        token = f"{PREFIX}{_text(payload)}.{_text(self._mac(payload))}"
        return TokenView(token=token, sandbox=live.id, verbs=body.verbs, expires=lent.expires)

    async def check(self, token: str) -> Principal:
        """Whose it is and what it may. Raises `client.wrong_key`, `client.token_expired`."""
        payload, _, mac = token.removeprefix(PREFIX).partition(".")
        try:
            raw, given = _bytes(payload), _bytes(mac)
        except (NoBase64, ValueError):
            raw = given = b""
        if not hmac.compare_digest(self._mac(raw), given):
            raise refused("this token was not made here", "client.wrong_key", hint="POST /v1/tokens")
        lent = msgspec.json.decode(raw, type=Lent)
        if lent.expires < time.time():
            raise refused("this token has expired", "client.token_expired", hint="POST /v1/tokens")
        owner = await self._keys.known(lent.key)
        scopes = owner.scopes - {"admin"}
        return replace(
            owner, tenant=lent.tenant, scopes=scopes, sandbox=lent.sandbox, created=lent.created, verbs=lent.verbs
        )

    def _mac(self, payload: bytes) -> bytes:
        return hmac.digest(self._secret, b"token:" + payload, hashlib.sha256)


def admit(who: Principal, path: str, method: str, id: str) -> None:
    """Raises `client.forbidden` if `who` came with a token that is for another sandbox or other verbs."""
    if not who.sandbox or path == ABOUT:
        return
    rest = path.removeprefix(BASE) if path.startswith(BASE) else None
    part = "" if rest is None else rest.strip("/:").replace(":", "/").partition("/")[0]
    open_ = rest is not None and id == who.sandbox and any(part in VERBS[verb] for verb in who.verbs)
    if not open_ or (part == "" and method not in ("GET", "HEAD")):
        may = f"{', '.join(who.verbs)} of sandbox {who.sandbox}"
        raise refused(f"this token is good for {may} alone", "client.forbidden", hint="POST /v1/tokens")


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
