"""Zstd frames in a file: where each one begins and ends, and which bytes are no good frame.

The header of a frame does not say how long it is on disk; walking its block headers does (RFC 8878, 3.1.1),
so a frame is read with one seek and decompressed whole, with its checksum.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass

import zstandard

MAGIC = b"\x28\xb5\x2f\xfd"
LARGEST = 1 << 28  # bytes that one frame may unpack to; more is an attack or a foreign file
_PIECE = 1 << 20
_READ = 1 << 13
_RLE, _RESERVED = 1, 3
_SHORTEST_HEADER = 5  # magic number and frame descriptor


@dataclass(frozen=True, slots=True)
class Frame:
    """A whole frame, bytes [offset, end) of the file, and what it unpacks to."""

    offset: int
    end: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes [offset, end) that are no good frame. code: torn_tail | bad_frame | frame_too_large | garbage."""

    offset: int
    end: int
    code: str
    message: str


class _Bad(Exception):
    pass


class _Incomplete(Exception):
    pass


class _TooLarge(Exception):
    pass


def frames(file: int, start: int = 0) -> Iterator[Frame | Damage]:
    """Every frame and every damage of the open `file` from byte `start`, in order, with constant memory.

    The size is taken once, so a writer that appends meanwhile does not matter. Damage never swallows a good
    frame: after a bad one, the next place where a whole frame unpacks is searched for.
    """
    size = os.fstat(file).st_size
    at = start
    while at < size:
        found = _frame(file, at, size)
        if isinstance(found, Frame):
            yield found
            at = found.end
            continue
        good = _next_good(file, at + 1, size)
        yield from _damages(file, at, size if good is None else good, size)
        at = size if good is None else good


def _frame(file: int, at: int, size: int) -> Frame | Damage:
    """The frame at `at`, or what is wrong there, looking at no byte from `size` on."""
    try:
        raw = _raw(file, at, size)
        return Frame(at, at + len(raw), _unpack(raw))
    except _Incomplete as error:
        return Damage(at, size, "torn_tail", str(error))
    except _TooLarge as error:
        return Damage(at, size, "frame_too_large", str(error))
    except (_Bad, zstandard.ZstdError) as error:
        code = "bad_frame" if os.pread(file, 4, at) == MAGIC else "garbage"
        return Damage(at, size, code, str(error))


def _raw(file: int, at: int, size: int) -> bytes:
    """The bytes of the frame at `at`."""
    head = os.pread(file, min(_READ, size - at), at)
    if not head.startswith(MAGIC):
        if MAGIC.startswith(head):
            raise _Incomplete(f"{len(head)} bytes of a frame's first 4")
        raise _Bad("no zstd frame begins here")
    length = _length(file, at, head, size)
    available = min(length, size - at)
    raw = head[:length] if available <= len(head) else os.pread(file, available, at)
    if len(raw) < length:
        raise _Incomplete(f"the frame is cut short after {len(raw)} of {length} bytes")
    return raw


def _length(file: int, at: int, head: bytes, size: int) -> int:
    """Bytes of the frame at `at` on disk, by walking its blocks."""
    if len(head) < _SHORTEST_HEADER:
        raise _Incomplete(f"the frame is cut short after {len(head)} bytes")
    length = zstandard.frame_header_size(head)
    last = False
    while not last:
        block = head[length : length + 3] if length + 3 <= len(head) else os.pread(file, 3, at + length)
        if len(block) < 3 or at + length + 3 > size:
            raise _Incomplete(f"the frame is cut short after {size - at} bytes")
        value = int.from_bytes(block, "little")
        last, kind = bool(value & 1), value >> 1 & 3
        if kind == _RESERVED:
            raise _Bad("a block of the frame has the reserved type")
        length += 3 + (1 if kind == _RLE else value >> 3)
        if length > LARGEST:
            raise _TooLarge(f"the frame is longer than {LARGEST} bytes")
    return length + 4 * zstandard.get_frame_parameters(head).has_checksum


def _unpack(raw: bytes) -> bytes:
    decompressor = zstandard.ZstdDecompressor(max_window_size=1 << 31)
    claimed = zstandard.frame_content_size(raw)  # -1: the header does not say
    if claimed > LARGEST:
        raise _TooLarge(f"the frame unpacks to {claimed} bytes, more than {LARGEST}")
    if claimed >= 0:
        return decompressor.decompress(raw)
    parts, total = [], 0
    with decompressor.stream_reader(raw) as reader:
        while part := reader.read(_PIECE):
            total += len(part)
            if total > LARGEST:
                raise _TooLarge(f"the frame unpacks to more than {LARGEST} bytes")
            parts.append(part)
    return b"".join(parts)


def _next_good(file: int, at: int, size: int) -> int | None:
    for start in _magics(file, at, size):
        if isinstance(_frame(file, start, size), Frame):
            return start
    return None


def _damages(file: int, at: int, end: int, size: int) -> Iterator[Damage]:
    """One damage for each frame that seems to have been in [at, end)."""
    borders = [at, *_magics(file, at + 1, end), end]
    for start, stop in zip(borders, borders[1:], strict=False):
        found = _frame(file, start, stop)
        code, message = ("bad_frame", "") if isinstance(found, Frame) else (found.code, found.message)
        if code == "torn_tail" and stop < size:
            code = "bad_frame"
        yield Damage(start, stop, code, message)


def _magics(file: int, at: int, end: int) -> Iterator[int]:
    """Every place in [at, end) where a frame may begin."""
    while at < end:
        piece = os.pread(file, min(_PIECE, end - at), at)
        found = piece.find(MAGIC)
        while found >= 0:
            yield at + found
            found = piece.find(MAGIC, found + 1)
        if len(piece) < 4:
            return
        at += len(piece) - 3
