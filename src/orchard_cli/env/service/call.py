"""One request: who made it, what it says, how it is answered."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar
from urllib.parse import parse_qs

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from .keys import Principal
from .problem import refused
from .service import Service

B = TypeVar("B")
MAX_WAIT_S = 60.0


@dataclass
class Call:
    request: Request
    who: Principal
    service: Service
    id: str
    notes: dict[str, Any] = field(default_factory=dict)  # for the audit log

    def path(self, name: str) -> str:
        value: str = self.request.path_params[name]
        if name == "id":
            self.notes["sandbox"] = value[:100]
        return value

    @cached_property
    def _query(self) -> dict[str, list[str]]:
        text = self.request.scope["query_string"].decode("latin-1")
        return parse_qs(text, keep_blank_values=True, errors="surrogateescape")

    def known(self, names: tuple[str, ...]) -> None:
        """Raises `client.bad_request` for a word of the query that means nothing here: it may be a slip of the pen."""
        if unknown := sorted(self._query.keys() - set(names)):
            raise refused(
                f"`{unknown[0][:80]}` is not asked here",
                "client.bad_request",
                hint=f"this takes {', '.join(f'`{name}`' for name in names) or 'no query'}",
            )

    def query(self, name: str, default: str = "") -> str:
        return self._query.get(name, [default])[-1]

    def queries(self, name: str) -> list[str]:
        return self._query.get(name, [])

    def number(self, name: str, default: float, most: float) -> float:
        text = self.query(name)
        if not text:
            return default
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 <= value < float("inf"):
            raise refused(f"`{name}` is not a number from 0 up", "client.bad_request")
        return min(value, most)

    def whole(self, name: str, default: int, least: int, most: int) -> int:
        """A whole number within bounds. Raises `client.bad_request` for any other."""
        text = self.query(name) or str(default)
        if not (text.isdecimal() and least <= int(text[:20]) <= most):
            raise refused(f"`{name}` is a whole number from {least} to {most}", "client.bad_request")
        return int(text)

    @property
    def wait_s(self) -> float:
        return self.number("wait", 0.0, MAX_WAIT_S)

    def header(self, name: str) -> str:
        return self.request.headers.get(name, "")

    async def chunks(self, cap: int) -> AsyncIterator[bytes]:
        """The body as it comes. Raises `client.too_large` before more than `cap` bytes were taken."""
        length = self.header("content-length")
        seen = int(length) if length.isdecimal() else 0
        if seen <= cap:
            seen = 0
            try:
                async for chunk in self.request.stream():
                    seen += len(chunk)
                    if seen > cap:
                        break
                    if chunk:
                        yield chunk
            except ClientDisconnect:
                raise refused("the connection ended within the body", "client.bad_request", retry="same") from None
        if seen > cap:
            raise refused(f"the body has more than {cap} bytes", "client.too_large")

    async def raw(self, cap: int = 0) -> bytes:
        cap = cap or self.service.settings.max_body
        async with aclosing(self.chunks(cap)) as chunks:  # type: ignore[type-var]
            return b"".join([chunk async for chunk in chunks])

    async def read(self, kind: type[B]) -> tuple[B, bytes]:
        """The body as `kind`, and its bytes. Raises `client.bad_request` that names the field."""
        raw = await self.raw()
        try:
            return msgspec.json.decode(raw or b"{}", type=kind), raw
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise refused(f"the body is refused: {error}", "client.bad_request", hint="GET /v1/openapi.json") from None

    async def once(
        self, raw: bytes, act: Callable[[], Awaitable[dict[str, Any]]], early: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Do it; at most once if the request carries an Idempotency-Key."""
        key = self.header("idempotency-key")
        if not key:
            return await act()
        once = self.service.once
        asked = sorted((name, values) for name, values in self._query.items() if name != "wait")
        url = f"{self.request.method} {self.request.url.path} {asked}".encode(errors="surrogateescape")
        digest = once.digest(url, raw)
        return await once.run(self.who.tenant, key, digest, act, early=early)


Answered = Callable[[Call], Awaitable[Response]]


@dataclass(frozen=True)
class Operation:
    """One method of one path, as served and as described by OpenAPI. `scope` empty: open to all."""

    method: str
    path: str
    scope: str
    call: Answered
    summary: str
    body: type | None = None
    answer: type | None = None
    status: int = 200
    query: tuple[str, ...] = ()
    media: str = "application/json"  # of the answer
    takes: str = "application/json"  # media type of the body

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"


def json(value: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(value), status, headers, "application/json")


def stream(chunks: AsyncIterator[bytes], media: str, headers: dict[str, str] | None = None) -> Response:
    return StreamingResponse(chunks, headers={"Cache-Control": "no-store", **(headers or {})}, media_type=media)
