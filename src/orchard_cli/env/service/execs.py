"""The commands of one sandbox: started once, waited for by anybody, kept for a while."""

import asyncio
import os
import secrets
import threading
import time
from base64 import b64decode
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any

from ...errors import SandboxError
from ..execution import Event, ExecResult, Terminal
from ..execution import Execution as Running
from ..sandbox import Sandbox
from .bodies import ExecBody, ExecView, output, result_view
from .journal import Journal
from .problem import fault_view, refused

KEPT = 256  # ended commands whose results can be fetched again
KEPT_BYTES = 16 << 20
AHEAD = 32  # pieces that were heard and are not yet in the journal
PIECE = 1 << 16


class Execution:
    """One command, running or ended."""

    def __init__(self, id: str, sandbox: str):
        self.id, self.sandbox = id, sandbox
        self.result: ExecResult | None = None
        self.fault: SandboxError | None = None
        self.journal = Journal()
        self.handle: Running | None = None  # while it can be talked to
        self.spool: Running | None = None  # it keeps all that it said
        self.talks = False  # it has, or will have, a handle
        self.heard = False  # its output is in the journal already
        self.began = time.monotonic()
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def size(self) -> int:
        return len(self.result.stdout) + len(self.result.stderr) if self.result else 0

    def view(self) -> ExecView:
        if self.fault:
            return ExecView(id=self.id, sandbox=self.sandbox, state="failed", fault=fault_view(self.fault))
        if self.result:
            return ExecView(id=self.id, sandbox=self.sandbox, state="done", result=result_view(self.result))
        return ExecView(id=self.id, sandbox=self.sandbox, state="running")

    async def wait(self, seconds: float) -> ExecView:
        if not self.ended.done() and seconds > 0:
            await asyncio.wait([self.ended], timeout=seconds)
        return self.view()

    async def begun(self) -> Running | None:
        """Its handle, once a thread was free to start it; None for one that has ended or cannot be talked to."""
        while self.talks and self.handle is None and not self.ended.done():
            await asyncio.sleep(0.005)
        return self.handle

    def end(self, result: ExecResult | None, fault: SandboxError | None) -> None:
        self.result, self.fault = result, fault
        self.handle = None
        if result and not self.heard:
            for name, data in (("out", result.stdout), ("err", result.stderr)):
                for start in range(0, len(data), PIECE):
                    piece = data[start : start + PIECE]
                    self.journal.add({"type": name, "offset": start, **_plain(piece)}, len(piece))
        if result:
            self.journal.add({"type": "exit", **exit_view(result)})
        elif fault:
            self.journal.add({"type": "fault", **fault_view(fault)})
        self.journal.close()
        if not self.ended.done():
            self.ended.set_result(None)


class Execs:
    """All methods belong to the event loop; the commands run in `pool`."""

    def __init__(self, sandbox: str, backend: Sandbox, pool: Executor):
        self._sandbox, self._backend, self._pool = sandbox, backend, pool
        self._known: dict[str, Execution] = {}
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
        execution = Execution(id or new_id(), self._sandbox)
        self._known[execution.id] = execution
        execution.journal.add({"type": "started"})
        self.running += 1
        if talks or live or more:
            options |= more
            execution.talks = True
            options["stdin"] = None if body.open_stdin else options["stdin"]
            options["terminal"] = Terminal(body.rows, body.cols) if body.rows else None
            work = partial(hear, execution, self._backend, command, options, asyncio.get_running_loop())
        else:
            work = partial(self._backend.exec, command, **options)
        task = asyncio.get_running_loop().create_task(self._run(execution, work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return execution

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
            execution.end(result, fault)
            self._trim()

    def find(self, id: str) -> Execution:
        """Raises `client.no_such_exec`, and `client.result_dropped` for one that ended long ago."""
        if found := self._known.get(id):
            return found
        if id in self._dropped:
            raise refused("its result is no longer kept", "client.result_dropped", effect="complete")
        raise refused(f"there is no command {id}", "client.no_such_exec")

    def list(self) -> list[ExecView]:
        return [execution.view() for execution in self._known.values()]

    def _trim(self) -> None:
        ended = [e for e in self._known.values() if e.ended.done()]
        size = sum(e.size for e in ended)
        for old in ended:
            if len(ended) <= KEPT and size <= KEPT_BYTES:
                return
            size -= old.size
            ended = ended[1:]
            del self._known[old.id]
            self._dropped.add(old.id)
            if len(self._dropped) > 100_000:
                self._dropped.clear()

    async def settle(self) -> None:
        """Wait until every command has its record (after the back end closed)."""
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=30)


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
    room = threading.BoundedSemaphore(AHEAD)

    def take(event: Event) -> None:
        execution.journal.add({"type": event.type, "offset": event.offset, **_plain(event.data)}, len(event.data) + 100)
        room.release()

    for event in handle.events():
        if event.type in ("out", "err"):
            room.acquire()
            loop.call_soon_threadsafe(take, event)
    return handle.wait()


def exit_view(result: ExecResult) -> dict[str, Any]:
    names = ("exit_code", "reason", "signal", "wall_s", "stdout_bytes", "stderr_bytes", "left_running")
    return {name: getattr(result, name) for name in names}


def new_id() -> str:
    return f"ex-{secrets.token_hex(10)}"


def _call(body: ExecBody) -> tuple[str | Sequence[str], dict[str, Any]]:
    if [body.script, body.script_b64, body.argv].count(None) != 2:
        raise refused("give one of `script`, `script_b64` and `argv`", "client.bad_request")
    if body.argv is not None and not body.argv:
        raise refused("`argv` is empty", "client.bad_request")
    if not 0 < body.timeout_s <= 7 * 86_400:
        raise refused("`timeout_s` is above 0 and at most a week", "client.bad_request")
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
    return command, options


def _more(body: ExecBody) -> dict[str, Any]:
    """What only a command that is followed can have; empty if nothing was asked for."""
    if not (0 <= body.no_output_timeout_s <= 7 * 86_400 and 0 <= body.kill_grace_s <= 3600):
        raise refused("`no_output_timeout_s` is at most a week, `kill_grace_s` an hour", "client.bad_request")
    if not 0 <= body.spool_bytes <= 1 << 40:
        raise refused("`spool_bytes` is between 0 and 1 TiB", "client.bad_request")
    given = {name: getattr(body, name) for name in ("no_output_timeout_s", "kill_grace_s", "spool_bytes")}
    return {} if given == {"no_output_timeout_s": 0.0, "kill_grace_s": 0.5, "spool_bytes": 0} else given


def _bytes(name: str, text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise refused(f"`{name}` is not base64", "client.bad_request") from None


def _plain(data: bytes) -> dict[str, str]:
    part = output(data, len(data))
    return {"text": part.text} if part.text is not None else {"b64": part.b64 or ""}
