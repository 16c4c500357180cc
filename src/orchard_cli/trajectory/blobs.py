"""Bytes that are too large for the record, by the hash of their content: screenshots and the like.

<run>/blobs/ab/ab12…    every blob of a run once, whichever stages and attempts show it
"""

import hashlib
import os
import re
import tempfile
from contextlib import suppress
from pathlib import Path

from ..errors import DataError, disk_error

FOLDER = "blobs"
_NAME = re.compile(r"[0-9a-f]{64}")


class Blobs:
    """A content-addressed store in the folder `root`, which is made when the first blob comes. Thread-safe, and safe
    between processes: a blob is there whole or not at all, but for a power cut, which `get` finds out.
    """

    def __init__(self, root: Path):
        self.root = root

    @classmethod
    def beside(cls, trajectories: Path) -> "Blobs":
        """The store that a file of trajectories refers to: the nearest `blobs` folder above it."""
        above = trajectories.absolute().parents
        return cls(next((p / FOLDER for p in above if (p / FOLDER).is_dir()), above[0] / FOLDER))

    def path(self, sha: str) -> Path:
        """Where a blob lies. Raises `DataError` for what is no sha256 in hex: it may come from a record of others."""
        if not _NAME.fullmatch(sha):
            raise DataError(f"{sha[:80]!r} is no name of a blob", hint="a blob is named by its sha256, in hex")
        return self.root / sha[:2] / sha

    def put(self, data: bytes) -> str:
        """Store `data`; its sha256 in hex. Raises `RunError` if the disk refuses."""
        sha = hashlib.sha256(data).hexdigest()
        path = self.path(sha)
        try:
            if path.exists() and path.stat().st_size == len(data):
                return sha
            path.parent.mkdir(parents=True, exist_ok=True)
            part = _written(path.parent, data)
            part.replace(path)
        except OSError as error:
            raise disk_error(error, path, "written") from error
        return sha

    def get(self, sha: str) -> bytes:
        """The blob. Raises `DataError` that names the file if it is missing or is not what its name says."""
        path = self.path(sha)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise DataError(f"{path} is missing", hint="a run's `blobs` folder belongs to its trajectories") from None
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
        if hashlib.sha256(data).hexdigest() != sha:
            raise DataError(f"{path} is damaged: its content is not what its name says", hint="take it from a copy")
        return data

    def flaw(self, sha: str) -> tuple[str, str] | None:
        """What is wrong with a blob, as (code, message): blob_name, blob_missing or blob_damaged; None if nothing."""
        try:
            self.get(sha)
        except DataError as error:
            if not _NAME.fullmatch(sha):
                return "blob_name", str(error)
            return "blob_damaged" if self.path(sha).exists() else "blob_missing", str(error)
        return None


def _written(folder: Path, data: bytes) -> Path:
    """A file of its own with `data`, readable like any other, in `folder`."""
    handle, name = tempfile.mkstemp(dir=folder, suffix=".part")
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        part.chmod(0o644)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise
    return part
