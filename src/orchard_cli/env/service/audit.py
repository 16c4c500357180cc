"""Who did what and when, one JSON line each. Never a command, a variable, a body or a key."""

import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from .metrics import Metrics

MAX_BYTES = 64 << 20
FILES = 4


class Audit:
    """Appends to `path`; four files of 64 MiB at most. A line that cannot be written is counted, readyz tells."""

    def __init__(self, path: Path, metrics: Metrics):
        self._path, self._metrics, self._lock = path, metrics, threading.Lock()
        self.ok = True
        self._fd = self._open(path)

    def _open(self, path: Path) -> int:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def write(self, **line: Any) -> None:
        data = msgspec.json.encode({"time": round(time.time(), 3), **line}) + b"\n"
        with self._lock:
            try:
                if os.fstat(self._fd).st_size > MAX_BYTES:
                    with suppress(OSError):  # else the old file goes on, and the next line tries again
                        self._turn()
                self.ok = os.write(self._fd, data) == len(data)
            except OSError:
                self.ok = False
        if not self.ok:
            self._metrics.audit_lost.inc()

    def _turn(self) -> None:
        fresh = self._path.with_suffix(".new")  # opened first: what cannot be opened leaves all as it is
        fd = self._open(fresh)
        try:
            for number in range(FILES - 1, 0, -1):
                older = self._path.with_suffix(f".{number}.jsonl")
                newer = self._path.with_suffix(f".{number - 1}.jsonl") if number > 1 else self._path
                if newer.exists():
                    newer.replace(older)
            fresh.replace(self._path)
        except BaseException:
            os.close(fd)
            raise
        old, self._fd = self._fd, fd
        os.close(old)

    def tail(self, limit: int, tenant: str | None) -> list[dict[str, Any]]:
        """The newest lines, newest last; of one tenant, or of all."""
        size = self._path.stat().st_size
        with self._path.open("rb") as file:
            file.seek(max(0, size - 4 * 1024 * max(limit, 256)))
            lines = file.read().splitlines()
        found = [msgspec.json.decode(line) for line in lines if line.startswith(b"{") and line.endswith(b"}")]
        return [line for line in found if tenant is None or line.get("tenant") == tenant][-limit:]

    def close(self) -> None:
        with self._lock:
            os.close(self._fd)
