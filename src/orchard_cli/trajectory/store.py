"""The append-only file of trajectories: one trajectory, one JSON line, one zstd frame with a checksum.

A crash loses at most the frame that was being written; opening for append finds that torn tail and cuts it.
"""

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import zstandard

from ..errors import DataError, RunError, disk_error
from .frames import MAGIC, Damage, frames
from .line import encode
from .reading import unreadable
from .scan import Problem, lines, not_zstd
from .types import Trajectory


@dataclass(frozen=True, slots=True)
class Tail:
    """What a crash left at the end of a file: bytes, and how many records seem to have begun in them."""

    bytes: int = 0
    records: int = 0


class Store:
    """A file of trajectories, open for append. Threads and processes may append to the same file at once.

    torn: what was cut, all zero if nothing. It grows when another process dies while writing to this file.
    """

    def __init__(self, path: str | os.PathLike[str], *, fsync: bool = False, level: int = 3):
        """Create or open `path`. Raises `DataError` if it is damaged elsewhere than at its end or holds something
        else, `RunError` if it cannot be opened. fsync: force each record to the disk before `append` returns.
        """
        self.path = Path(path)
        self.torn = Tail()
        self._fsync = fsync
        self._compressor = zstandard.ZstdCompressor(level=level, write_checksum=True, write_content_size=True)
        self._lock = threading.Lock()
        self._checked = 0  # up to this byte the file is known to be whole frames
        with self._failing("opened"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            with self._failing("opened"), self._alone():
                self._cut_torn_tail()
                if fsync:
                    _sync_folder(self.path.parent)
        except BaseException:
            self.close()
            raise

    def append(self, trajectory: Trajectory) -> None:
        """Write one trajectory, whole or not at all. Raises `RunError` if the disk is full or fails, or if the
        record cannot be written so that it reads back.
        """
        line = encode(trajectory)
        with self._failing("written"), self._alone():
            self._catch_up()
            self._write(self._compressor.compress(line + b"\n"))

    def close(self) -> None:
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
            self._file = -1

    def __enter__(self) -> "Store":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with self._lock:
            if self._file < 0:
                raise RunError(f"{self.path} is closed", hint="append before the store is closed")
            fcntl.flock(self._file, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)

    @contextmanager
    def _failing(self, doing: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise disk_error(error, self.path, doing) from error

    def _catch_up(self) -> None:
        """Look at what other processes did to the file since the last append."""
        state = os.fstat(self._file)
        if not state.st_nlink:
            raise RunError(f"{self.path} was removed while it was written", hint="start the run again")
        if state.st_size < self._checked:
            self._checked = 0
        if state.st_size != self._checked:  # another process wrote, and may have died
            self._cut_torn_tail()

    def _write(self, frame: bytes) -> None:
        start = self._checked
        try:
            left = memoryview(frame)
            while left:  # one write, unless the disk is full in the middle of it
                left = left[os.write(self._file, left) :]
            if self._fsync:
                os.fsync(self._file)
            self._checked = start + len(frame)
        except BaseException:  # also Ctrl-C: half a frame must not stay in front of the next
            os.ftruncate(self._file, start)
            raise

    def _cut_torn_tail(self) -> None:
        """Cut what follows the last good frame, if it can be what a crash left; refuse all other damage."""
        good, damages = self._checked, list[Damage]()
        for found in frames(self._file, self._checked):
            if isinstance(found, Damage):
                damages.append(found)
                continue
            if damages:
                raise self._damaged(damages[0])
            good = found.end
        if damages:
            head = os.pread(self._file, len(MAGIC), 0)
            if not MAGIC.startswith(head):
                raise not_zstd(self.path)
            if any(damage.code == "frame_too_large" for damage in damages):
                raise self._damaged(damages[0])
            records = sum(damage.code != "garbage" for damage in damages) or 1
            size = damages[-1].end
            os.ftruncate(self._file, good)
            self.torn = Tail(self.torn.bytes + size - good, self.torn.records + records)
        self._checked = good

    def _damaged(self, damage: Damage) -> DataError:
        """The error for a damage that may not be cut, with the line that only a full reading can tell."""
        for found in lines(self.path):
            if isinstance(found, Problem) and found.frame_offset >= damage.offset:
                return unreadable(found)
        return DataError(f"{self.path} (byte {damage.offset}): {damage.message}", hint="")


def _sync_folder(path: Path) -> None:
    """A new file survives a power cut only when its folder is on the disk too."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
