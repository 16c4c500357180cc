"""The model socket: a loopback address inside a sandbox that leads to one model endpoint and nowhere else."""

import asyncio
import ssl
from urllib.parse import urlsplit

import h11

from . import relay
from .endpoint import ModelEndpoint
from .log import DecisionLog
from .meter import Caps, Meter
from .refused import Refused
from .visit import Visit
from .wire import Wire, chunked, passed_on

# What could name somebody, choose another place, or hide the answer from `Redactor`.
DROPPED = (b"host", b"expect", b"authorization", b"x-api-key", b"api-key", b"cookie", b"accept-encoding", b"forwarded")
CAPS = Caps(connections=32, idle_s=900.0, up_bytes=8 << 30, down_bytes=8 << 30)  # an answer may take its time


class Redactor:
    """Takes a secret out of a stream of bytes, also where it lies across two pieces. Lengths stay the same."""

    def __init__(self, secret: bytes):
        self._secret, self._held = secret, b""

    def feed(self, data: bytes) -> bytes:
        if not self._secret:
            return data
        data = (self._held + data).replace(self._secret, b"*" * len(self._secret))
        # Hold back only what may be the beginning of the secret: a stream is not to stall for it.
        longest = min(len(data), len(self._secret) - 1)
        keep = next((n for n in range(longest, 0, -1) if data.endswith(self._secret[:n])), 0)
        self._held = data[len(data) - keep :]
        return data[: len(data) - keep]

    def rest(self) -> bytes:
        held, self._held = self._held, b""
        return held


class ModelSocket:
    """A `Way`. `calls` counts those that were sent on."""

    kind = "model"

    def __init__(self, sandbox: str, endpoint: ModelEndpoint, log: DecisionLog, caps: Caps = CAPS):
        self.sandbox, self.endpoint, self.meter = sandbox, endpoint, Meter(caps)
        self.calls = 0
        self._log, self._key = log, endpoint.key().encode()
        parts = urlsplit(endpoint.base_url)
        self._tls = _context(endpoint.ca_file) if parts.scheme == "https" else None
        self._host, self._port = parts.hostname or "", parts.port or (443 if self._tls else 80)
        self._authority = parts.netloc.encode()

    async def visit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await Visit(self, self._log, reader, writer).run()

    async def request(self, visit: Visit, request: h11.Request) -> None:
        note, method, target = visit.note, request.method.decode(), request.target.decode()
        note.host, note.port = self._host, self._port
        path = self.endpoint.path(method, target)
        if not path:
            raise Refused(403, f"{method} {target[:200]} is not a call of this model endpoint")
        note.rule = self.endpoint.base_url
        self.calls += 1
        streams = await self._connect()
        try:
            outer = Wire(h11.CLIENT, *streams, head_bytes=self.meter.caps.head_bytes)
            head = relay.request_head(request.method, path.encode(), self._headers(request), chunked(request.headers))
            await relay.send_request(visit.wire, head, outer, self.meter.caps.idle_s)
            redactor = Redactor(self._key)
            answer = relay.send_response(outer, visit.wire, self.meter.caps.idle_s, redactor.feed, redactor.rest)
            note.status = await relay.unless_gone(visit.wire, answer)
        finally:
            streams[1].transport.abort()

    def _headers(self, request: h11.Request) -> list[tuple[bytes, bytes]]:
        ours = [(key.lower().encode(), value.encode()) for key, value in self.endpoint.headers]
        headers = passed_on(request.headers, but=(*DROPPED, *(key for key, _ in ours)))
        headers = [(key, value) for key, value in headers if not key.startswith(b"x-forwarded")]
        headers += [(b"host", self._authority), (b"accept-encoding", b"identity"), (b"connection", b"close"), *ours]
        if self._key:
            bearer = self.endpoint.auth == "bearer"
            name = b"authorization" if bearer else self.endpoint.auth.encode()
            headers.append((name, b"Bearer " + self._key if bearer else self._key))
        return headers

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            async with asyncio.timeout(self.meter.caps.connect_s):
                return await asyncio.open_connection(
                    self._host, self._port, ssl=self._tls, server_hostname=self._host if self._tls else None
                )
        except (OSError, TimeoutError) as error:
            raise Refused(502, "the model endpoint cannot be reached", verdict="failed") from error


def _context(ca_file: str) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=ca_file or None)
