"""What a server says, read as ours: what else may answer at an address is told, not tripped over."""

from typing import Any, TypeVar

import msgspec

from ...errors import SandboxError
from .client import Client

T = TypeVar("T")


def decoded(url: str, data: bytes, kind: type[T]) -> T:
    """An answer. Raises `SandboxError` where it comes from something else than our service."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SandboxError(
            f"what answers at {url} is no `orchard env serve`, or one of another version: {error}",
            code="infra.no_service",
            effect="unknown",
            retry="never",
            hint="is that its address?",
        ) from error


def capabilities(client: Client) -> dict[str, Any]:
    """Raises `SandboxError` where no service answers; an address that ends in `/v1` is told from the right one."""
    try:
        found = decoded(client.url, client.ask("GET", "/v1/capabilities"), dict[str, Any])
    except SandboxError as error:
        if client.url.endswith("/v1") and error.fault.code not in ("client.no_key", "client.wrong_key"):
            error.hint = f"without /v1: {client.url.removesuffix('/v1')}"
        raise
    if not {"env", "server"} <= found.keys():
        return decoded(client.url, b"", dict[str, Any])
    return found
