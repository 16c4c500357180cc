"""One command as the service knows it: what it has said, how it ended, and by what it can be talked to."""

import asyncio
import time
from typing import Any

from ...errors import SandboxError
from ..execution import ExecResult
from ..execution import Execution as Running
from .bodies import ExecView, output, result_view
from .journal import Journal
from .problem import fault_view

PIECE = 1 << 16


class Execution:
    """One command, running or ended."""

    def __init__(self, id: str, sandbox: str, *, paced: bool = False):
        self.id, self.sandbox = id, sandbox
        self.result: ExecResult | None = None
        self.fault: SandboxError | None = None
        self.journal = Journal(paced=paced)
        self.journal.add({"type": "started"})
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
            told = result_view(self.result) if self.result else None
            return ExecView(id=self.id, sandbox=self.sandbox, state="failed", result=told, fault=fault_view(self.fault))
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
                    self.journal.add({"type": name, "offset": start, **plain(piece)}, len(piece))
        if result:
            whose = {"fault": fault_view(fault)} if fault else {}
            self.journal.add({"type": "exit", **exit_view(result), **whose})
        elif fault:
            self.journal.add({"type": "fault", **fault_view(fault)})
        self.journal.close()
        if not self.ended.done():
            self.ended.set_result(None)


def exit_view(result: ExecResult) -> dict[str, Any]:
    names = ("exit_code", "reason", "signal", "wall_s", "stdout_bytes", "stderr_bytes", "left_running")
    return {name: getattr(result, name) for name in names}


def plain(data: bytes) -> dict[str, str]:
    part = output(data, len(data))
    return {"text": part.text} if part.text is not None else {"b64": part.b64 or ""}
