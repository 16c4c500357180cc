"""The commands of one sandbox, by key and by name, and what can be asked of each."""

from __future__ import annotations

import json
from collections import OrderedDict
from contextlib import suppress

from . import transfer
from .children import Children
from .connection import Connection
from .execution import Execution
from .follow import Follower
from .ground import Ground
from .keys import Keys
from .kinds import Any
from .launch import crowded
from .login import Login
from .loop import Loop
from .order import Order
from .output import Sink
from .problem import Json, Problem
from .request import Request
from .websocket import Attachment

try:
    from _blake2 import blake2b
except ImportError:  # a Python built in another way
    from hashlib import blake2b

WATCH_S = 0.1
MAX_RUNNING = 512
KEEP_DONE, KEEP_BYTES = 256, 32 << 20  # finished executions that can be asked for again, and bytes of their output


class Commands:
    """A key is run once: asked for again, it gives the same execution, and for other words it is a conflict."""

    def __init__(self, loop: Loop, ground: Ground, children: Children, *, workdir: str, base: dict[str, str]):
        self.loop, self.ground, self.workdir, self.children = loop, ground, workdir, children
        self.sink = Sink(loop)
        self.running: set[Execution] = set()
        self._base, self._login = base, Login(self, base)
        self._executions: OrderedDict[str, Execution] = OrderedDict()
        self._by_key: dict[bytes, Execution] = {}
        self._keys: dict[str, str] = {}  # as they were given, by execution
        self._forgotten = Keys()  # which never run again
        self._done: OrderedDict[str, Execution] = OrderedDict()
        self._bytes = 0  # of output that is kept for those that are done
        self._watching = False

    def handle(self, connection: Connection, request: Request) -> None:
        parts, method = request.parts, request.method.lower()
        if len(parts) == 2:
            self._begin(connection, request) if method == "post" else connection.reply(200, {"execs": self._all()})
            return
        call = getattr(self, f"_{method}_{parts[3] if len(parts) == 4 else 'one'}", None)
        if call is None or len(parts) > 4:
            raise Problem(404, "client.no_such_path", "an execution has no such path")
        call(connection, request, self._find(parts[2]))

    def _begin(self, connection: Connection, request: Request) -> None:
        key = request.headers.get("idempotency-key", "")
        if not key or len(key) > 200:
            raise Problem(400, "client.bad_argument", "a command needs an Idempotency-Key of at most 200 letters")
        name, digest = _digest(key.encode("latin-1")), _digest(request.body)
        known = self._by_key.get(name)
        request.number("wait_s", 0.0)  # what is refused has not begun
        if known is not None:
            if known.digest != digest:
                raise Problem(409, "client.key_conflict", "another command was started under this key")
            self._answer(connection, request, known)
            return
        if name in self._forgotten:
            text = "the command of this key has run; its result is not kept any longer"
            raise Problem(410, "infra.result_forgotten", text, "infra", effect="complete")
        if len(self.running) >= MAX_RUNNING or crowded():
            raise Problem(429, "capacity.agent_busy", f"{len(self.running)} commands are running", "infra")
        head, _, data = request.body.partition(b"\n")
        order = Order(_object(head), data)
        if order.login is not None and not self._login.known:
            # Started again from here, under the same key, once the environment is known.
            self._login.learn(order.login, lambda: self._again(connection, request))
            return
        execution = Execution(
            self, order, self._base if order.login is None else self._login.env, key=name, digest=digest
        )
        self._executions[execution.id] = self._by_key[name] = execution
        self._keys[execution.id] = key
        if execution.state == "running":
            self.running.add(execution)
            self._watch()
        self._answer(connection, request, execution)

    def _again(self, connection: Connection, request: Request) -> None:
        try:
            self._begin(connection, request)
        except Problem as problem:
            connection.problem(problem)

    def _answer(self, connection: Connection, request: Request, execution: Execution) -> None:
        """Now, or when the command has ended, or when the client has waited for long enough."""
        wait = request.number("wait_s", 0.0)

        def answer() -> None:
            timer.cancel()
            if answer in execution.waiters:
                execution.waiters.remove(answer)
            if not connection.closed:
                record, data = execution.result()
                connection.reply(200 if execution.state == "done" else 202, record, data)

        timer = self.loop.after(wait, answer)
        if execution.state == "done" or not wait:
            answer()
        else:
            execution.waiters.append(answer)
            connection.gone.append(answer)

    def _find(self, name: str) -> Execution:
        if name not in self._executions:
            raise Problem(404, "client.no_such_execution", f"no execution {name}, or it is not kept any longer")
        return self._executions[name]

    def _all(self) -> list[Json]:
        return [{**each.result()[0], "key": self._keys[name]} for name, each in self._executions.items()]

    def _get_one(self, connection: Connection, request: Request, execution: Execution) -> None:
        self._answer(connection, request, execution)

    def _delete_one(self, connection: Connection, request: Request, execution: Execution) -> None:
        if execution.state == "running":
            raise Problem(409, "client.still_running", "cancel it first")
        self._forget(execution)
        connection.reply(200, {})

    def _get_events(self, connection: Connection, request: Request, execution: Execution) -> None:
        Follower(self.loop, connection, execution, int(request.number("after", 0)))

    def _get_attach(self, connection: Connection, request: Request, execution: Execution) -> None:
        Attachment(connection, request, execution)

    def _get_output(self, connection: Connection, request: Request, execution: Execution) -> None:
        number = {"out": 0, "err": 1}.get(request.query.get("stream", "out"), 9)
        if number >= len(execution.spools):
            raise Problem(404, "client.no_such_file", "this command keeps no such output")
        spool = execution.spools[number]
        if spool < 0:
            raise Problem(409, "workload.disk_quota", "there was no room to keep this output", "model")
        request.query["path"] = f"/proc/self/fd/{spool}"
        self.children.lend(connection, request, transfer.read, spool)

    def _post_stdin(self, connection: Connection, request: Request, execution: Execution) -> None:
        """Bytes from `offset` on; what was taken already is passed over, so that sending again does no harm."""
        feed, data = execution.feed, request.body
        if feed is None:
            raise Problem(409, "client.no_stdin", "this command was started without an open input")
        offset = int(request.number("offset", feed.taken))
        if offset > feed.taken:
            raise Problem(409, "client.gap", f"input is known up to {feed.taken}")
        fresh = data[feed.taken - offset :]
        if fresh and (feed.broken or feed.ended):
            raise Problem(409, "client.stdin_closed", "the command takes no more input")
        feed.add(fresh)
        if request.query.get("close") and not feed.ended:
            feed.end()
        taken = {"taken": feed.taken}
        if feed.room > 0:
            connection.reply(200, taken)
        else:
            feed.drained.append(lambda: None if connection.closed else connection.reply(200, taken))

    def _post_signal(self, connection: Connection, request: Request, execution: Execution) -> None:
        number = int(request.number("number", 15, 1))
        if number > 64:
            raise Problem(400, "client.bad_argument", f"{number} is no signal")
        execution.signal(number)
        connection.reply(200, {})

    def _post_cancel(self, connection: Connection, request: Request, execution: Execution) -> None:
        execution.stop("cancelled")
        connection.reply(200, {})

    def _post_resize(self, connection: Connection, request: Request, execution: Execution) -> None:
        execution.resize(int(request.number("rows", 24)), int(request.number("cols", 80)))
        connection.reply(200, {})

    # -- what they need

    def spool(self) -> int:
        """A file without a name, for all that a command says; -1 where none can be made."""
        with suppress(OSError):
            return self.ground.scratch()
        return -1

    def finished(self, execution: Execution) -> None:
        self.running.discard(execution)
        if execution.key:
            self._done[execution.id] = execution
            self._bytes += execution.kept
            self._trim()

    def _trim(self) -> None:
        """Keep the newest of those that are done; the last one, whatever its size: it is still to be asked for."""
        while len(self._done) > 1 and (len(self._done) > KEEP_DONE or self._bytes > KEEP_BYTES):
            self._forget(self._done[next(iter(self._done))])

    def _forget(self, execution: Execution) -> None:
        execution.forget()
        self._bytes -= execution.kept
        self._done.pop(execution.id, None)
        self._executions.pop(execution.id, None)
        self._keys.pop(execution.id, None)
        self._by_key.pop(execution.key, None)
        self._forgotten.add(execution.key)

    def _watch(self) -> None:
        if not self._watching:
            self._watching = True
            self.loop.after(WATCH_S, self._look)

    def _look(self) -> None:
        """Limits that the kernel does not keep for us."""
        self._watching = False
        reason = self.ground.overstepped() if self.running else ""
        for execution in tuple(self.running) if reason else ():
            execution.kill(reason)
        if self.running:
            self._watch()


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=12).digest()


def _object(text: bytes) -> dict[str, Any]:
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        raise Problem(400, "client.bad_request", "the first line of the body is no JSON") from None
    if not isinstance(given, dict):
        raise Problem(400, "client.bad_request", "the first line of the body is no JSON object")
    return given
