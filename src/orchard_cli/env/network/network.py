"""All ways out of all sandboxes of an environment: one thread, one loop, one log."""

import asyncio
import socket
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from . import lookup
from .egress import Egress
from .endpoint import ModelEndpoint
from .log import DecisionLog
from .meter import Caps
from .model import CAPS, ModelSocket
from .rules import Policy

T = TypeVar("T")
CONNECTIONS = 4000  # of all sandboxes at once: each takes two of this process's descriptors
LOOKUPS = 32


class Gate:
    """One listening socket inside a sandbox, or of a relay there, and the way it leads to. Any thread may use it."""

    def __init__(self, network: "Network", listener: socket.socket, way: Egress | ModelSocket):
        self.way = way
        # Through a Unix socket it is served by a relay inside, whose port we do not know.
        unix = listener.family == socket.AF_UNIX
        self.address: tuple[str, int] = ("", 0) if unix else listener.getsockname()[:2]
        self._network, self._listener = network, listener
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    def update(self, policy: Policy) -> int:
        """New rules at once, also for connections that stand; returns how many of them were ended."""
        way = self.way
        assert isinstance(way, Egress), "a model socket has no rules"
        return self._network.run(_now(lambda: way.update(policy)))

    @property
    def connections(self) -> int:
        return len(self._tasks)

    def close(self) -> None:
        """No more connections, and an end to those that stand. Idempotent."""
        self._network.drop(self)

    @property
    def closed(self) -> bool:
        return not self._network.holds(self)

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accepted, sock=self._listener)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) >= self.way.meter.caps.connections or not self._network.admits():
            writer.transport.abort()
            return
        task = asyncio.ensure_future(self.way.visit(reader, writer))
        self._network.open += 1
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._network.open -= 1
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._network.faults.append(error)


class Network:
    """Starts with its thread; `close` ends all that it serves."""

    def __init__(self, log: DecisionLog | None = None, *, resolve: lookup.Resolve = lookup.system):
        self.log = log or DecisionLog()
        self.faults: deque[BaseException] = deque(maxlen=100)  # of our own: none may ever be here
        self.open = 0
        self._resolve = resolve
        self._gates: set[Gate] = set()
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(ThreadPoolExecutor(LOOKUPS, thread_name_prefix="orchard-lookup"))
        self._thread = threading.Thread(target=self._loop.run_forever, name="orchard-network", daemon=True)
        self._thread.start()

    def egress(self, listener: socket.socket, sandbox: str, policy: Policy, caps: Caps | None = None) -> Gate:
        """Serve an HTTP proxy on a listening socket, which is ours from now on."""
        return self._open(listener, lambda: Egress(sandbox, policy, self.log, caps or Caps(), self._resolve))

    def model(self, listener: socket.socket, sandbox: str, endpoint: ModelEndpoint, caps: Caps = CAPS) -> Gate:
        """Serve one model endpoint on a listening socket. Raises `ConfigError` when its key is not set."""
        return self._open(listener, lambda: ModelSocket(sandbox, endpoint, self.log, caps))

    def _open(self, listener: socket.socket, way: Callable[[], Egress | ModelSocket]) -> Gate:
        try:
            gate = Gate(self, listener, way())
            self.run(gate.start())
        except BaseException:
            listener.close()
            raise
        self._gates.add(gate)
        return gate

    def admits(self) -> bool:
        return self.open < CONNECTIONS

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def holds(self, gate: Gate) -> bool:
        return gate in self._gates

    def drop(self, gate: Gate) -> None:
        if gate in self._gates:
            self._gates.discard(gate)
            self.run(gate.stop())
            self.log.forget(gate.way.sandbox)

    def close(self) -> None:
        if self._loop.is_closed():
            return
        for gate in tuple(self._gates):
            self.drop(gate)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()
        self.log.close()

    def __enter__(self) -> "Network":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


async def _now(call: Callable[[], T]) -> T:
    return call()
