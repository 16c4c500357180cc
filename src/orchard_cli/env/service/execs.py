"""The commands of one sandbox: started once, waited for by anybody, kept for a while."""

import asyncio
import os
import secrets
import threading
from base64 import b64decode
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any, Protocol, runtime_checkable

from ...errors import SandboxError
from ..execution import Event, ExecResult, Terminal
from ..execution import Execution as Running
from ..running import GONE, LOST
from ..sandbox import Sandbox
from .bodies import ExecBody, ExecView
from .command import Execution, plain
from .problem import refused

KEPT = 256  # ended commands whose results can be fetched again
KEPT_BYTES = 16 << 20
AHEAD, PACED = 32, 4  # pieces that were heard and are not yet in the journal; of a command that is `paced`
LOOK_S = 1.0  # how often a command that waits for a reader asks whether there is one


@runtime_checkable
class Lasting(Protocol):
    """A sandbox whose commands can be found again by whoever comes after a server that died."""

    def exec(self, command: str | Sequence[str], *, key: str = "", **options: Any) -> ExecResult: ...

    def executions(self) -> tuple[Running, ...]: ...


class Execs:
    """All methods belong to the event loop; the commands run in `pool`."""

    def __init__(self, sandbox: str, backend: Sandbox, pool: Executor):
        self._sandbox, self._backend, self._pool = sandbox, backend, pool
        self._lasting = backend if isinstance(backend, Lasting) else None  # looked up once: that is slow
        self._known: dict[str, Execution] = {}
        self._ended: deque[Execution] = deque()  # of those
        self._size = 0  # bytes of their results
        self._dropped: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.running = 0

    def start(self, body: ExecBody, id: str = "", *, live: bool = False) -> Execution:
        """Begin a command. Raises `client.bad_request` before anything is done.

        A `live` one is heard while it runs, and can be talked to and cancelled; any other costs less.
        """
        command, options = _call(body)
        talks = body.open_stdin or body.rows > 0
        more = _more(body)
        if body.paced and not live:
            raise refused("`paced` is for a command that is followed: begin it without `wait`", "client.bad_request")
        execution = Execution(id or new_id(), self._sandbox, paced=body.paced)
        self._known[execution.id] = execution
        self.running += 1
        if talks or live or more:
            options |= more
            execution.talks = True
            options["stdin"] = None if body.open_stdin else options["stdin"]
            options["terminal"] = Terminal(body.rows, body.cols) if body.rows else None
            work = partial(hear, execution, self._backend, command, options, asyncio.get_running_loop())
        elif self._lasting:
            work = partial(self._lasting.exec, command, **options, key=execution.id)
        else:
            work = partial(self._backend.exec, command, **options)
        self._go(execution, work)
        return execution

    async def inherit(self) -> list[Execution]:
        """Take over what an earlier server of this sandbox began: what ran has gone on, what ended is told."""
        if not self._lasting:
            return []
        loop, found = asyncio.get_running_loop(), list[Execution]()
        for handle in await loop.run_in_executor(self._pool, self._lasting.executions):
            if handle.key.startswith("ex-"):
                execution = Execution(handle.key, self._sandbox)
                self._known[execution.id] = execution
                execution.talks, execution.handle, execution.spool = True, handle, handle
                self.running += 1
                self._go(execution, partial(follow, execution, handle, loop))
                found.append(execution)
        return found

    def _go(self, execution: Execution, work: Callable[[], ExecResult]) -> None:
        task = asyncio.get_running_loop().create_task(self._run(execution, work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, execution: Execution, work: Callable[[], ExecResult]) -> None:
        loop = asyncio.get_running_loop()
        result, fault = None, None
        try:
            result = await loop.run_in_executor(self._pool, work)
        except SandboxError as error:
            fault = error
        except Exception as error:  # noqa: BLE001 - a back end's own failure becomes the command's record
            fault = SandboxError(f"{type(error).__name__}: {error}", code="infra.backend", effect="unknown")
        finally:
            self.running -= 1
            if result is None and fault is None:  # the service stops
                fault = SandboxError("the service stopped meanwhile", code="infra.agent_lost", effect="unknown")
            execution.end(*_told(result, fault))
            self._keep(execution)

    def find(self, id: str) -> Execution:
        """Raises `client.no_such_exec`, and `client.result_dropped` for one that ended long ago."""
        if found := self._known.get(id):
            return found
        if id in self._dropped:
            raise refused("its result is no longer kept", "client.result_dropped", effect="complete")
        raise refused(f"there is no command {id}", "client.no_such_exec")

    def list(self) -> list[ExecView]:
        return [execution.view() for execution in self._known.values()]

    def _keep(self, ended: Execution) -> None:
        """One more with a result; the oldest results go, never the newest: it is still to be asked for."""
        self._ended.append(ended)
        self._size += ended.size
        while len(self._ended) > 1 and (len(self._ended) > KEPT or self._size > KEPT_BYTES):
            old = self._ended.popleft()
            self._size -= old.size
            del self._known[old.id]
            self._dropped.add(old.id)
            if len(self._dropped) > 100_000:
                self._dropped.clear()

    async def settle(self) -> None:
        """Wait until every command has its record (after the back end closed)."""
        for execution in self._known.values():
            execution.journal.let_go()
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=30)


def _told(result: ExecResult | None, fault: SandboxError | None) -> tuple[ExecResult | None, SandboxError | None]:
    """A command that was lost with its agent has a record that says so, and a fault that says whose."""
    if fault is not None and fault.fault.code in GONE and fault.fault.effect != "none":
        return LOST, fault
    if result is not None and result.reason == "agent_lost":
        text = "the sandbox died with its agent while the command ran"
        return result, SandboxError(text, code="infra.sandbox_lost", effect="unknown")
    return result, fault


def hear(
    execution: Execution,
    backend: Sandbox,
    command: str | Sequence[str],
    options: dict[str, Any],
    loop: asyncio.AbstractEventLoop,
) -> ExecResult:
    """In a thread: start the command, hand on what it says as it says it, return how it ended."""
    handle = backend.start(command, key=execution.id, **options)
    execution.handle, execution.heard = handle, True
    execution.spool = handle if options.get("spool_bytes") else None
    return follow(execution, handle, loop)


def follow(execution: Execution, handle: Running, loop: asyncio.AbstractEventLoop) -> ExecResult:
    """In a thread: its events into the journal under the numbers that they have, then how it ended."""
    journal = execution.journal
    room = threading.BoundedSemaphore(PACED if journal.paced else AHEAD)

    def take(event: Event) -> None:
        frame = {"type": event.type, "offset": event.offset, **plain(event.data)}
        journal.add(frame, len(event.data) + 100, event.seq)
        journal.when_room(room.release)

    for event in handle.events():
        if event.type in ("out", "err"):
            execution.heard = True
            while not room.acquire(timeout=LOOK_S):
                loop.call_soon_threadsafe(journal.hurry if _over(handle) else journal.look)
            loop.call_soon_threadsafe(take, event)
    return handle.wait()


def _over(handle: Running) -> bool:
    """Whether it has ended, however much of what it said is still to be heard."""
    try:
        handle.wait(0)
    except SandboxError as error:
        return error.fault.code != "client.still_running"
    return True


def new_id() -> str:
    return f"ex-{secrets.token_hex(10)}"


def _call(body: ExecBody) -> tuple[str | Sequence[str], dict[str, Any]]:
    if [body.script, body.script_b64, body.argv].count(None) != 2:
        raise refused("give one of `script`, `script_b64` and `argv`", "client.bad_request")
    if body.argv is not None and not body.argv:
        raise refused("`argv` is empty", "client.bad_request")
    if not 0 < body.timeout_s <= 7 * 86_400:
        raise refused("`timeout_s` is above 0 and at most a week", "client.bad_request", hint="60 unless it is given")
    if not 0 <= body.max_bytes <= 64 << 20:
        raise refused("`max_bytes` is between 0 and 64 MiB", "client.bad_request")
    stdin = _bytes("stdin_b64", body.stdin_b64) if body.stdin_b64 else body.stdin.encode()
    command: str | Sequence[str] = list(body.argv) if body.argv else body.script or ""
    if body.script_b64:
        command = os.fsdecode(_bytes("script_b64", body.script_b64))
    options = {
        "timeout_s": body.timeout_s,
        "cwd": body.cwd,
        "env": {**body.env, **body.secrets},
        "stdin": stdin,
        "max_bytes": body.max_bytes,
        "merge": body.merge,
    }
    if body.login:
        options["login"] = True
    return command, options


def _more(body: ExecBody) -> dict[str, Any]:
    """What only a command that is followed can have; empty if nothing was asked for."""
    if not (0 <= body.no_output_timeout_s <= 7 * 86_400 and 0 <= body.kill_grace_s <= 3600):
        raise refused("`no_output_timeout_s` is at most a week, `kill_grace_s` an hour", "client.bad_request")
    if not 0 <= body.spool_bytes <= 1 << 40:
        raise refused("`spool_bytes` is between 0 and 1 TiB", "client.bad_request")
    given = {name: getattr(body, name) for name in ("no_output_timeout_s", "kill_grace_s", "spool_bytes", "paced")}
    return {} if list(given.values()) == [0.0, 0.5, 0, False] else given


def _bytes(name: str, text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise refused(f"`{name}` is not base64", "client.bad_request") from None
