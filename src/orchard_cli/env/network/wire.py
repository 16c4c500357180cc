"""HTTP/1.1 on a stream, by h11: whoever passes a message on writes it anew, so that none can be smuggled."""

import asyncio
from collections.abc import Callable, Iterable

import h11

PIECE = 65_536
HOP = {b"connection", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade"}
Headers = list[tuple[bytes, bytes]]
Event = h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]


class Gone(Exception):
    """The other side closed the connection in the middle."""


class Wire:
    """One side of a conversation. `count(sent, received)` sees all bytes before they go on."""

    def __init__(
        self,
        role: type[h11.CLIENT] | type[h11.SERVER],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        head_bytes: int,
        count: Callable[[int, int], None] = lambda sent, received: None,
    ):
        self.reader, self.writer = reader, writer
        self.http = h11.Connection(role, max_incomplete_event_size=head_bytes)
        self._count = count
        self._ended = False

    async def event(self) -> Event:
        """The next one. Raises `h11.RemoteProtocolError` for what is not HTTP, `Gone` at an end in the middle."""
        while True:
            event = self.http.next_event()
            if event is not h11.NEED_DATA:
                return event
            if self._ended:
                raise Gone
            await self.more()

    async def more(self) -> bool:
        """Read once, ahead of need; False at the end."""
        data = await self.reader.read(PIECE)
        self._count(0, len(data))
        self._ended = not data
        self.http.receive_data(data)
        return bool(data)

    async def send(self, event: h11.Event) -> None:
        data = self.http.send(event)
        if data:
            self._count(len(data), 0)
            self.writer.write(data)
            await self.writer.drain()

    async def answer(self, status: int, reason: str) -> bool:
        """A whole answer of our own, after which the connection ends; False where another has already begun."""
        if self.http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return False
        body = f"{reason}\n".encode(errors="replace")
        headers = [
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
            (b"x-refused-by", b"orchard"),
        ]
        await self.send(h11.Response(status_code=status, headers=headers))
        await self.send(h11.Data(data=body))
        await self.send(h11.EndOfMessage())
        return True


def passed_on(headers: Iterable[tuple[bytes, bytes]], *, but: Iterable[bytes] = ()) -> Headers:
    """Headers without those that belong to one connection, or that the sender says belong to it."""
    headers = list(headers)
    named = {
        word.strip().lower() for key, value in headers if key.lower() == b"connection" for word in value.split(b",")
    }
    unwanted = HOP | named | {name.lower() for name in but}
    return [
        (key, value) for key, value in headers if key.lower() not in unwanted and not key.lower().startswith(b"proxy-")
    ]


def framing(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """What is wrong with the way a request says how long its body is, or ""."""
    lengths = [value for key, value in headers if key.lower() == b"content-length"]
    codings = [value for key, value in headers if key.lower() == b"transfer-encoding"]
    if len(codings) > 1 or (codings and codings[0].lower() != b"chunked"):
        return "its transfer-encoding is not chunked"
    return "both content-length and transfer-encoding are given" if lengths and codings else ""


def chunked(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    return any(key.lower() == b"transfer-encoding" for key, _ in headers)
