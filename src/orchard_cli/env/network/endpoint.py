"""Which model endpoint a sandbox may talk to. The key is named here; it is read on this side and stays there."""

import os
import re
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from ...errors import ConfigError

CALLS = (
    "POST /chat/completions",
    "POST /completions",
    "POST /responses",
    "POST /messages",
    "POST /messages/count_tokens",
    "GET /models",
    "GET /models/*",
)
_CALL = re.compile(r"[A-Z]+ /[A-Za-z0-9._~/:@-]*\*?\Z")
_TARGET = re.compile(r"(/[A-Za-z0-9._~/:@-]*)(\?[A-Za-z0-9._~!$&'()*+,;=:@/?%-]*)?\Z")
_HEADER = re.compile(r"[A-Za-z0-9-]+\Z")


@dataclass(frozen=True)
class ModelEndpoint:
    """One upstream. `calls` are METHOD and path below `base_url` (a `/v1` may stand before it); `/*` ends a prefix.

    `headers` are added to each call (they are no secrets); the key comes from the environment variable `api_key_env`.
    """

    base_url: str
    api_key_env: str = ""
    auth: Literal["bearer", "x-api-key", "api-key"] = "bearer"
    calls: tuple[str, ...] = CALLS
    headers: tuple[tuple[str, str], ...] = ()
    ca_file: str = ""

    def __post_init__(self) -> None:
        parts = urlsplit(self.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
            raise ConfigError(f"{self.base_url!r} is not the address of a model", hint="such as https://host:port/v1")
        if not _TARGET.match(self.base or "/"):
            raise ConfigError(f"{self.base_url!r} has an unusual path", hint="such as https://host:port/v1")
        for call in self.calls:
            if not _CALL.match(call):
                raise ConfigError(f"`{call}` is not a call", hint="such as 'POST /chat/completions' or 'GET /models/*'")
        for key, value in self.headers:
            if not _HEADER.match(key) or not value.isprintable():
                raise ConfigError(f"`{key}` is not a header with a plain value")

    @property
    def base(self) -> str:
        """Path of `base_url`, without a final slash: the same inside as outside."""
        return urlsplit(self.base_url).path.rstrip("/")

    def path(self, method: str, target: str) -> str:
        """`target` if it may be asked for, else ""."""
        match = _TARGET.match(target)
        if match is None or {"", ".", ".."} & set(match[1].strip("/").split("/")) or "//" in match[1]:
            return ""
        path = match[1].removeprefix(self.base)
        if self.base and (path == match[1] or not path.startswith("/")):
            return ""
        wanted = {f"{method} {path}", f"{method} {path.removeprefix('/v1')}"}
        return target if any(_covers(call, words) for call in self.calls for words in wanted) else ""

    def key(self) -> str:
        """Raises `ConfigError` when the variable that was named is not set."""
        if not self.api_key_env:
            return ""
        key = os.environ.get(self.api_key_env, "").strip()
        if not key or not key.isascii() or not key.isprintable():
            raise ConfigError(f"{self.api_key_env} holds no key", hint=f"export {self.api_key_env}=…")
        return key


def _covers(call: str, words: str) -> bool:
    return words.startswith(call[:-1]) and len(words) >= len(call) if call.endswith("/*") else words == call
