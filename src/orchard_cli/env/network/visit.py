"""One connection from a sandbox, from its first byte to its last; what is asked on it is up to a `Way`."""

import asyncio
from contextlib import suppress
from typing import Protocol

import h11

from .log import DecisionLog
from .meter import CapReached, Meter
from .note import Note, told
from .refused import Refused
from .wire import PIECE, Wire, framing

LINGER_S, LINGER_BYTES = 1.0, 1 << 20  # what a client may still send before our answer is pulled from under it


class Way(Protocol):
    """What a connection leads to."""

    @property
    def kind(self) -> str: ...

    @property
    def sandbox(self) -> str: ...

    @property
    def meter(self) -> Meter: ...

    async def request(self, visit: "Visit", request: h11.Request) -> None:
        """Answer one request. Raises `Refused` and whatever `told` knows."""
        ...


class Visit:
    def __init__(self, way: Way, log: DecisionLog, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self.way, self._log = way, log
        self.note = Note(way.kind)
        self.revoked = False  # the rules changed, and no longer let this through
        self._reader, self._writer = reader, writer
        self.wire = Wire(h11.SERVER, reader, writer, head_bytes=way.meter.caps.head_bytes, count=self.count)

    def count(self, down: int, up: int) -> None:
        """Bytes before they are passed on. Raises `CapReached`."""
        self.note.down += down
        self.note.up += up
        self.way.meter.take(up, down)

    async def run(self) -> None:
        try:
            while await self._one():
                self.wire.http.start_next_cycle()
        finally:
            # Cut off in the middle must not look like a proper end.
            whole = self.note.verdict == "allowed" and not self.note.reason
            self._writer.close() if whole else self._writer.transport.abort()

    async def _one(self) -> bool:
        """One request; whether there may be another on this connection."""
        self.note = Note(self.way.kind)
        refused = None
        try:
            request = await self._head()
            if request is not None:
                await self.way.request(self, request)
        except asyncio.CancelledError:
            self.note.verdict, self.note.reason = "failed", "the sandbox was closed"
            if not self.revoked:
                raise
            self.note.verdict, self.note.reason = "revoked", "the rules no longer allow it"
        except Exception as error:  # noqa: BLE001 - `told` raises again what it does not know
            self.note.verdict, self.note.reason = "failed", f"a fault of ours: {type(error).__name__}"
            refused = told(error)
            self.note.judge(refused)
        finally:
            self._record()  # before the sandbox hears of it
        if refused is not None:
            await self._say_no(refused)
        return self.note.verdict == "allowed" and self.wire.http.our_state is h11.DONE is self.wire.http.their_state

    async def _head(self) -> h11.Request | None:
        async with asyncio.timeout(self.way.meter.caps.head_s):
            event = await self.wire.event()
        if not isinstance(event, h11.Request):
            return None
        self.note.method = event.method.decode()
        if event.http_version not in (b"1.0", b"1.1"):
            raise Refused(505, "only HTTP/1.1 is spoken here")
        if wrong := framing(event.headers):
            raise Refused(400, wrong)
        return event

    async def _say_no(self, refused: Refused) -> None:
        """Our answer, if there is still room for one, and time for the client to see it."""
        with suppress(OSError, TimeoutError, CapReached, h11.LocalProtocolError):
            async with asyncio.timeout(LINGER_S):
                if not await self.wire.answer(refused.status, refused.reason):
                    return
                self._writer.write_eof()
                left = LINGER_BYTES
                while left > 0 and (data := await self._reader.read(PIECE)):
                    left -= len(data)

    def _record(self) -> None:
        if self.note.method or self.note.up:  # else it came and went without a word
            verdicts = self.way.meter.verdicts
            verdicts[self.note.verdict] = verdicts.get(self.note.verdict, 0) + 1
            self._log.add(self.note.decision(self.way.sandbox))
