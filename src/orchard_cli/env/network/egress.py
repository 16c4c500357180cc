"""One sandbox's way out: an HTTP proxy that lets through what the rules name, and nothing else."""

import asyncio
import re

import h11

from . import hello, lookup, relay
from .addresses import Address, refusal
from .log import DecisionLog
from .meter import Caps, Meter
from .refused import Refused
from .rules import Ask, Policy, ask, name
from .visit import Visit
from .wire import Wire, chunked, passed_on

LOOKUPS = 8  # of one sandbox at the same time: slow names must not hold up the others'
_TARGET = re.compile(rb"http://([^/?#]+)(/[^#]*|\?[^#]*)?\Z", re.IGNORECASE)


class Egress:
    """A `Way`. All of it runs in the thread of the network's loop, so that a change of the rules is one step."""

    kind = "egress"

    def __init__(self, sandbox: str, policy: Policy, log: DecisionLog, caps: Caps, resolve: lookup.Resolve):
        self.sandbox, self.policy, self.meter = sandbox, policy, Meter(caps)
        self._log, self._resolve = log, resolve
        self._lookups = asyncio.Semaphore(LOOKUPS)
        self._live: dict[asyncio.Task[None], Visit] = {}

    async def visit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visit, task = Visit(self, self._log, reader, writer), asyncio.current_task()
        assert task is not None
        self._live[task] = visit
        try:
            await visit.run()
        finally:
            del self._live[task]

    def update(self, policy: Policy) -> int:
        """New rules, from now on and for what is under way; returns how many connections they ended."""
        self.policy = policy
        ended = 0
        for task, visit in self._live.items():
            if visit.note.ask is not None and not self._still(visit):
                visit.revoked = True
                task.cancel()
                ended += 1
        return ended

    def _still(self, visit: Visit) -> bool:
        wanted = visit.note.ask
        if wanted is None or self.policy.rule_for(wanted) is None:
            return False
        if visit.note.unproven and self.policy.needs_tls(wanted):
            return False
        reached = visit.note.reached
        return reached is None or not refusal(reached, self.policy.lifts(reached, wanted.port))

    async def request(self, visit: Visit, request: h11.Request) -> None:
        if request.method == b"CONNECT":
            visit.note.kind = "connect"
            await self._tunnel(visit, self._admitted(visit, request.target.decode(), None))
        else:
            visit.note.kind = "http"
            await self._forward(visit, request)

    def _admitted(self, visit: Visit, authority: str, usual_port: int | None) -> Ask:
        note = visit.note
        note.host = authority
        try:
            wanted = ask(note.method, authority, usual_port)
        except ValueError as error:
            raise Refused(400, str(error)) from error
        note.host, note.port = wanted.host, wanted.port
        rule = self.policy.rule_for(wanted)
        if rule is None:
            raise Refused(403, f"no rule allows {wanted.method} {wanted.host}:{wanted.port}")
        note.rule, note.ask = rule, wanted
        return wanted

    async def _connect(self, visit: Visit, wanted: Ask) -> lookup.Streams:
        try:
            async with asyncio.timeout(self.meter.caps.connect_s):
                found = await self._look_up(wanted)
                streams, reached = await lookup.connect(found, wanted.port)
        except TimeoutError as error:
            raise Refused(504, f"{wanted.host}:{wanted.port} does not answer", verdict="failed") from error
        if why := refusal(reached, self._lifts(reached, wanted.port)):  # the rules may have changed meanwhile
            streams[1].transport.abort()
            raise Refused(403, why)
        visit.note.reached = reached
        return streams

    async def _look_up(self, wanted: Ask) -> list[Address]:
        """One that nobody waits for any more still holds a thread, and keeps its place for as long."""
        await self._lookups.acquire()
        looking = asyncio.ensure_future(lookup.addresses(wanted.host, wanted.port, self._resolver(wanted), self._lifts))
        looking.add_done_callback(self._looked_up)
        return await asyncio.shield(looking)

    def _looked_up(self, looking: "asyncio.Future[list[Address]]") -> None:
        self._lookups.release()
        if not looking.cancelled():
            looking.exception()  # told already, or of interest to nobody any more

    def _lifts(self, address: Address, port: int) -> bool:
        return self.policy.lifts(address, port)

    def _resolver(self, wanted: Ask) -> lookup.Resolve:
        async def itself(host: str, port: int) -> list[Address]:
            return [wanted.address] if wanted.address else []

        return itself if wanted.address else self._resolve

    async def _tunnel(self, visit: Visit, wanted: Ask) -> None:
        if not isinstance(await visit.wire.event(), h11.EndOfMessage):
            raise Refused(400, "CONNECT takes no body")
        inner = visit.wire.reader, visit.wire.writer
        outer = await self._connect(visit, wanted)
        try:
            await visit.wire.send(h11.Response(status_code=200, headers=[]))
            visit.note.status = 200
            first = visit.wire.http.trailing_data[0]
            if self.policy.needs_tls(wanted):
                first = await self._proven(visit, wanted, first)
            else:
                visit.note.unproven = wanted.address is None
            outer[1].write(first)
            try:
                await relay.tunnel(inner, outer, visit.count, self.meter.caps.idle_s)
            except ConnectionError as error:
                visit.note.reason = f"one end broke it off: {error.strerror}"
        finally:
            outer[1].transport.abort()

    async def _proven(self, visit: Visit, wanted: Ask, first: bytes) -> bytes:
        """The first bytes of the tunnel, once they have shown that they are TLS for the host that was asked for."""

        async def more() -> bytes:
            data = await visit.wire.reader.read(hello.LIMIT)
            visit.count(0, len(data))
            return data

        try:
            async with asyncio.timeout(self.meter.caps.head_s):
                said, first = await hello.server_name(first, more)
            if name(said) != wanted.host:
                raise Refused(403, f"TLS asks for {said}, CONNECT for {wanted.host}")
        except (hello.NotTls, ValueError) as error:
            raise Refused(403, f"the tunnel to {wanted.host} is not TLS for it: {error}") from error
        return first

    async def _forward(self, visit: Visit, request: h11.Request) -> None:
        match = _TARGET.match(request.target)
        if match is None:
            raise Refused(400, "a proxy is asked for http://host/path, or for CONNECT host:port")
        wanted = self._admitted(visit, match[1].decode(), 80)
        caps = self.meter.caps
        streams = await self._connect(visit, wanted)
        try:
            outer = Wire(h11.CLIENT, *streams, head_bytes=caps.head_bytes)
            path = match[2] or b"/"
            headers = passed_on(request.headers, but=(b"host", b"expect"))
            headers += [(b"host", _authority(wanted)), (b"connection", b"close")]
            head = relay.request_head(
                request.method, path if path[:1] == b"/" else b"/" + path, headers, chunked(request.headers)
            )
            await relay.send_request(visit.wire, head, outer, caps.idle_s)
            answer = relay.send_response(outer, visit.wire, caps.idle_s, relay.same, bytes)
            visit.note.status = await relay.unless_gone(visit.wire, answer)
        finally:
            streams[1].transport.abort()


def _authority(wanted: Ask) -> bytes:
    host = f"[{wanted.host}]" if ":" in wanted.host else wanted.host
    return (host if wanted.port == 80 else f"{host}:{wanted.port}").encode()
