"""What a request body is read from: a file with its hash, or pieces."""

import hashlib
from collections.abc import Iterable
from typing import IO

from ...errors import SandboxError


class Hashed:
    """A file of so many bytes, hashed while it is read. Raises `client.hash_mismatch` once it has fewer or more."""

    def __init__(self, file: IO[bytes], size: int):
        self._file, self._size, self._left, self.digest = file, size, size, hashlib.sha256()

    def read(self, size: int) -> bytes:
        data = self._file.read(min(size, self._left) or 1)
        if bool(data) != bool(self._left):  # the server would wait for the rest, or take what is too much for a request
            raise SandboxError(
                f"{self._file.name} changed while it was sent", code="client.hash_mismatch", attributable="client"
            )
        self._left -= len(data)
        self.digest.update(data)
        return data

    def seek(self, place: int) -> None:
        self._file.seek(place)
        self._left, self.digest = self._size - place, hashlib.sha256()


class Pieces:
    """Pieces to read as a file. The HTTP client wants to begin anew when a connection breaks; an iterator cannot."""

    def __init__(self, pieces: Iterable[bytes]):
        # without the empty ones, which would be taken for the end
        self._pieces, self._rest, self.begun = filter(None, pieces), b"", False

    def seek(self, place: int) -> None:
        if self.begun:
            raise OSError("the connection broke while a stream was sent")

    def read(self, size: int = -1) -> bytes:
        self.begun = True
        self._rest = self._rest or next(self._pieces, b"")
        data, self._rest = (self._rest, b"") if size < 0 else (self._rest[:size], self._rest[size:])
        return data
