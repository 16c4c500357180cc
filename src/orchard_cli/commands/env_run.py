"""One command in a remote sandbox from here: our input goes to it, its output comes to us, and it ends when we do."""

import os
import select
import signal
import sys
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from ..console import Console
from ..env.execution import Event
from ..env.remote.execution import RemoteExecution
from ..env.remote.landing import put
from ..env.remote.sandbox import RemoteSandbox
from ..errors import Interrupted, RunError, SandboxError

PIECE = 1 << 20
OVER = ("client.stdin_closed", "client.not_live", "client.no_such_exec", "infra.sandbox_lost")  # it reads no more
ENDED = {
    "timeout": ("its time was over", "`--timeout-s` gives it more"),
    "oom": ("it used more memory than the sandbox has", "it needs a sandbox with more memory, or less at once"),
    "pid_limit": ("it had more processes than the sandbox may have", "it needs a sandbox with more, or fewer at once"),
    "disk_quota": ("the sandbox's disk is full", "remove what is not needed there, or make one with more room"),
    "cancelled": ("somebody cancelled it", "the same command runs it anew"),
}


class Stop:
    """Signals that end us become `KeyboardInterrupt`. Before `release` the first one waits until then."""

    def __init__(self) -> None:
        self.number = 0
        self._free = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Stop":
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # as under `nohup`
                self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        again, self.number = self.number, number
        if self._free or again:
            raise KeyboardInterrupt

    def release(self) -> None:
        self._free = True
        if self.number:
            raise KeyboardInterrupt


def run(box: RemoteSandbox, command: str | Sequence[str], timeout_s: float, *, fed: bool) -> int:
    """To its end; the exit code. `fed`: our standard input is its own."""
    with Stop() as stop:
        execution = box.start(command, timeout_s=timeout_s, stdin=None if fed else b"", paced=True)
        try:
            stop.release()
            feeding = Feeding(execution) if fed else None
            shown = show(execution.events())
        except KeyboardInterrupt:
            raise _interrupted(box, execution, stop.number or signal.SIGINT) from None
        except BrokenPipeError:
            _cancel(execution)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nothing more is said to whoever has left
            sys.exit(128 + signal.SIGPIPE)
        except OSError as error:
            _cancel(execution)
            text = f"standard output cannot be written: {error.strerror or error}; the command was cancelled"
            raise RunError(text, hint="is there room where it goes to?") from error
    if feeding and feeding.failed:
        raise feeding.failed
    return shown.tell()


def _cancel(execution: RemoteExecution) -> bool:
    try:
        execution.cancel()
    except SandboxError as error:
        return error.fault.code in OVER
    return True


def _interrupted(box: RemoteSandbox, execution: RemoteExecution, number: int) -> Interrupted:
    if _cancel(execution):
        error = Interrupted("interrupted; the command was cancelled", hint="the same command runs it anew")
    else:
        hint = f"orchard env exec {box.id} ps"
        error = Interrupted("interrupted; the command could not be cancelled and may still run", hint=hint)
    error.exit_code = 128 + number
    return error


class Feeding:
    """A thread that hands on our standard input until its end, or until the command takes no more."""

    def __init__(self, execution: RemoteExecution):
        self.failed: SandboxError | RunError | None = None
        self._execution = execution
        threading.Thread(target=self._feed, name="orchard-stdin", daemon=True).start()

    def _feed(self) -> None:
        try:
            try:
                while data := read_input():
                    self._execution.write(data)
            except OSError as error:
                text = f"standard input cannot be read: {error.strerror or error}"
                self.failed = RunError(text, hint="`</dev/null` gives it none")
            self._execution.close_stdin()
        except SandboxError as error:
            if error.fault.code not in OVER:
                self.failed = error
                _cancel(self._execution)  # it would wait for the rest


def read_input() -> bytes:
    """The next piece; empty at the end."""
    while True:
        with suppress(BlockingIOError):  # whoever started us may have left it so
            return os.read(0, PIECE)
        select.select([0], [], [])


def input_given() -> bool:
    """Standard input is a pipe or a file: no terminal, not closed, not nothing."""
    if sys.stdin is None or os.isatty(0):
        return False
    return not os.path.samestat(os.fstat(0), Path(os.devnull).stat())


class Shown:
    """How a command ended, and how much of its output did not come here."""

    def __init__(self, ended: Any, lost: int):
        self._ended, self._lost = ended, lost

    @property
    def code(self) -> int:
        """Its own, 128 + the signal, or 124 for a timeout of ours; not 0 where output was lost."""
        known = {"timeout": 124, "oom": 137}.get(self._ended["reason"])
        own = self._ended["exit_code"]
        code: int = known or (own if own is not None else 128 + (self._ended["signal"] or signal.SIGKILL))
        return code or min(self._lost, 1)

    def tell(self) -> int:
        """Say what its output does not; the exit code."""
        why, hint = ENDED.get(self._ended["reason"], ("", ""))
        if why:
            Console().error(f"the command was ended after {self._ended['wall_s']:.1f} s: {why}", hint)
        if self._lost:
            hint = "write it to a file in the sandbox, then copy that: `orchard env cp`"
            Console().error(f"{self._lost:,} bytes of its output were lost on the way", hint)
        return self.code


def show(events: Iterable[Event]) -> Shown:
    """Print what comes, up to the end. Raises `SandboxError` for a command that was lost with its sandbox."""
    seen, lost = {"out": 0, "err": 0}, 0
    for event in events:
        if event.type in ("out", "err"):
            lost += event.offset - seen[event.type]
            seen[event.type] = event.offset + len(event.data)
            stream = sys.stdout.buffer if event.type == "out" else sys.stderr.buffer
            put(stream, event.data)
            stream.flush()
        elif event.type == "exit":
            ended: Any = event.more
            if ended["reason"] == "agent_lost":
                break
            return Shown(ended, lost + ended["stdout_bytes"] + ended["stderr_bytes"] - sum(seen.values()))
    raise SandboxError("the sandbox died while the command ran", code="infra.sandbox_lost")
