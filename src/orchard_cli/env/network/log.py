"""What was asked for and what was decided: one JSON line each, in a file that does not grow without end."""

import threading
from collections import Counter, deque
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Literal

import msgspec

from ...errors import disk_error

Verdict = Literal["allowed", "refused", "failed", "capped", "revoked"]
REFUSALS_LOGGED = 1000  # of one sandbox; the rest is counted, so that noise cannot push out what was let through
LINE_CHARS = 300


class Decision(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One connection or request. `bytes_up` leave the sandbox. `rule` is the text of the rule that let it through."""

    time: float  # unix seconds at its end
    sandbox: str
    kind: str  # connect | http | model
    verdict: Verdict
    host: str = ""
    port: int = 0
    method: str = ""
    address: str = ""
    rule: str = ""
    reason: str = ""
    status: int = 0  # of an http answer
    bytes_up: int = 0
    bytes_down: int = 0
    seconds: float = 0.0


class DecisionLog:
    """Keeps the last `kept` decisions; with `path` also writes them, to two files of `max_bytes` together."""

    def __init__(self, path: Path | None = None, *, max_bytes: int = 64 << 20, kept: int = 2000):
        self.path, self._half = path, max_bytes // 2
        self._last: deque[Decision] = deque(maxlen=kept)
        self._refusals: Counter[str] = Counter()
        self._lock = threading.Lock()
        try:
            self._file: BinaryIO | None = path.open("ab") if path else None
        except OSError as error:
            raise disk_error(error, path, "written") from error

    def add(self, decision: Decision) -> None:
        with self._lock:
            if decision.verdict == "refused":
                self._refusals[decision.sandbox] += 1
                if self._refusals[decision.sandbox] > REFUSALS_LOGGED:
                    return
            self._last.append(decision)
            if self._file is not None:
                self._write(msgspec.json.encode(decision) + b"\n")

    def _write(self, line: bytes) -> None:
        assert self._file is not None and self.path is not None
        if self._file.tell() + len(line) > self._half:
            with suppress(OSError):  # else the old one goes on, and the next line tries again
                self._file = _turned(self._file, self.path)
        self._file.write(line)
        self._file.flush()

    def last(self, sandbox: str = "") -> tuple[Decision, ...]:
        """The decisions that are still held, oldest first; of one sandbox if it is named."""
        with self._lock:
            return tuple(item for item in self._last if sandbox in ("", item.sandbox))

    def refusals(self, sandbox: str) -> int:
        """How many there were, also those that were not logged."""
        with self._lock:
            return self._refusals[sandbox]

    def forget(self, sandbox: str) -> None:
        """Its budget of lines goes with the sandbox."""
        with self._lock:
            self._refusals.pop(sandbox, None)

    def close(self) -> None:
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None


def short(text: str) -> str:
    """Words of a stranger, cut to what a line of a log may hold."""
    return text if len(text) <= LINE_CHARS else text[:LINE_CHARS] + "…"


def _turned(old: BinaryIO, path: Path) -> BinaryIO:
    fresh = path.with_name(path.name + ".new")
    file = fresh.open("ab")  # first: what cannot be opened leaves all as it is
    try:
        path.replace(path.with_name(path.name + ".1"))
        fresh.replace(path)
    except BaseException:
        file.close()
        raise
    old.close()
    return file
