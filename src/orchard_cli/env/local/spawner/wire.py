"""Messages between driver and spawner: two lengths, a JSON header, raw bytes."""

import json
import struct
from typing import Any

HEAD = struct.Struct(">II")
PIECE = 1 << 16  # bytes to receive at once: a buffer that need not be mapped and unmapped each time
_encode = json.JSONEncoder(separators=(",", ":")).encode


def pack(header: dict[str, Any], body: bytes = b"") -> bytes:
    """One message. Lone surrogates in strings (file names that are not UTF-8) survive, as JSON escapes."""
    text = _encode(header).encode()
    return HEAD.pack(len(text), len(body)) + text + body


class Frames:
    """Cuts a byte stream back into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[tuple[dict[str, Any], bytes]]:
        self._buffer += data
        messages = []
        while len(self._buffer) >= HEAD.size:
            head, body = HEAD.unpack_from(self._buffer)
            end = HEAD.size + head + body
            if len(self._buffer) < end:
                break
            header = json.loads(bytes(self._buffer[HEAD.size : HEAD.size + head]))
            messages.append((header, bytes(self._buffer[HEAD.size + head : end])))
            del self._buffer[:end]
        return messages
