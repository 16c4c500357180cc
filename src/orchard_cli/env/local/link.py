"""The driver's end of the spawner: one process, one socket, any number of threads."""

import itertools
import os
import socket
import subprocess
import tempfile
import threading
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, cast

from ...errors import Attributable, Effect, SandboxError
from .bare import bare
from .elder import Process, hand_over
from .spawner.wire import PIECE, Frames, pack

Reply = tuple[dict[str, Any], bytes]
MAIN = "from env.local.spawner.main import main; main()"


class Link:
    """Sends requests and hands each reply to whoever waits for it."""

    def __init__(self, base: Path | None = None) -> None:
        """With `base`: to the spawner of that folder, whose driver died; see `elder.hand_over` for what is raised."""
        ours, theirs = socket.socketpair()
        self._passage, far_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ends = [theirs.fileno(), far_end.fileno()]
        self.process: Process
        try:
            self.process, self._complaints = _begun(ends) if base is None else hand_over(base, ends)
        except BaseException:
            ours.close()
            self._passage.close()
            raise
        finally:
            theirs.close()
            far_end.close()
        self._passed: dict[int, int] = {}  # number of a request -> descriptor that came for it
        self._socket = ours
        self._ids = itertools.count()
        self._sending = threading.Lock()
        self._lock = threading.Lock()
        self._waiting: dict[int, Future[Reply]] = {}
        self._lost = ""
        self._reader = threading.Thread(target=self._read, name="orchard-env", daemon=True)
        self._reader.start()

    def ask(self, op: str, body: bytes = b"", *, wait_s: float, **header: Any) -> Reply:
        """One request, one reply. Raises `SandboxError` for a fault, and when the spawner is lost."""
        number = next(self._ids)
        future: Future[Reply] = Future()
        with self._lock:
            if self._lost:
                raise self._lost_error("none")
            self._waiting[number] = future
        message = pack({"id": number, "op": op, **header}, body)
        try:
            with self._sending:
                self._socket.sendall(message)
            reply, data = future.result(min(wait_s, threading.TIMEOUT_MAX))
        except TimeoutError:
            raise SandboxError(f"no answer to `{op}` in {wait_s} s", code="infra.spawner_silent") from None
        except OSError as error:
            raise self._lost_error("unknown") from error
        finally:
            with self._lock:
                self._waiting.pop(number, None)
        if "fault" in reply:
            raise fault(reply["fault"])
        return {**reply, "number": number}, data

    def passed(self, number: int) -> int:
        """The descriptor that came with the reply to request `number`; the caller closes it."""
        with self._lock:
            while number not in self._passed:
                tag, descriptors, _, _ = socket.recv_fds(self._passage, 8, 1, socket.MSG_CMSG_CLOEXEC)
                if not tag:
                    raise self._lost_error("none")
                # None comes where we have no room for more; whose it was has to know, or would wait for ever.
                self._passed[int.from_bytes(tag, "big")] = descriptors[0] if descriptors else -1
            passed = self._passed.pop(number)
        if passed < 0:
            text = "no descriptor is left in this process for a connection"
            raise SandboxError(text, code="infra.no_descriptors", effect="none", hint="a higher limit of open files")
        return passed

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def lost(self) -> bool:
        return bool(self._lost)

    def leave(self) -> None:
        """As if we had died: the next driver may come."""
        with self._sending, suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._let_go()

    def _let_go(self) -> None:
        self._reader.join(5)
        self._socket.close()
        self._passage.close()
        for descriptor in self._passed.values():
            if descriptor >= 0:
                os.close(descriptor)
        self._passed.clear()
        self._complaints.close()

    def close(self) -> None:
        """End the spawner, which ends every sandbox first."""
        with self._sending, suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._let_go()

    def _read(self) -> None:
        frames = Frames()
        while True:
            try:
                data = self._socket.recv(PIECE)
            except OSError:
                data = b""
            if not data:
                break
            for header, body in frames.feed(data):
                with self._lock:
                    future = self._waiting.pop(header["id"], None)
                if future is not None:
                    future.set_result((header, body))
        self._fail_all()

    def _fail_all(self) -> None:
        with self._lock:
            self._lost = "the process that holds the sandboxes is gone"
            waiting, self._waiting = list(self._waiting.values()), {}
        for future in waiting:
            future.set_exception(self._lost_error("unknown"))

    def _lost_error(self, effect: Effect) -> SandboxError:
        message = self._lost or "the process that holds the sandboxes does not listen"
        said = self.complaints()
        return SandboxError(f"{message}{': ' + said if said else ''}", code="infra.spawner_lost", effect=effect)

    def complaints(self) -> str:
        """Last line that the spawner wrote before it died."""
        if self._complaints.closed:
            return ""
        size = os.fstat(self._complaints.fileno()).st_size
        text = os.pread(self._complaints.fileno(), 4096, max(0, size - 4096)).decode(errors="replace")
        return text.strip().rpartition("\n")[2]


def _begun(ends: list[int]) -> tuple[Process, IO[bytes]]:
    """A new spawner, and what it writes before it may die."""
    complaints = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
    process = subprocess.Popen(
        bare(MAIN, *map(str, ends), str(os.getpid())),
        pass_fds=ends,
        stdin=subprocess.DEVNULL,
        stdout=complaints,
        stderr=complaints,
        start_new_session=True,  # Ctrl-C is for the driver, which then closes us in order
        cwd="/",
        # Bound at start, functions need not be looked up again in each forked child.
        env={"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8", "LD_BIND_NOW": "1"},
    )
    return process, complaints


def fault(record: dict[str, Any]) -> SandboxError:
    """The spawner's record of a fault, as the error that the rollout writes down."""
    attributable = cast(Attributable, record.get("attributable", "infra"))
    return SandboxError(
        record["message"],
        code=record["code"],
        attributable=attributable,
        effect=cast(Effect, record.get("effect", "unknown")),
        retry="never" if attributable == "client" else "fresh",
    )
