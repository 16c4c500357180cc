"""What a request body is read from: a file with its hash, or pieces."""

import hashlib
from collections.abc import Iterable
from typing import IO


class Hashed:
    """A file that is hashed while it is read."""

    def __init__(self, file: IO[bytes]):
        self._file, self.digest = file, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.digest.update(data)
        return data

    def seek(self, place: int) -> None:
        self._file.seek(place)
        self.digest = hashlib.sha256()


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
