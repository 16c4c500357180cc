"""Keys of commands whose results are not kept any longer: those must never run again."""

from __future__ import annotations

GENERATION = 1 << 15
SLOTS = 2 * GENERATION


class Keys:
    """The newest `GENERATION` of them at least, at most twice as many, in a megabyte: as objects it would be six.

    A key is eight bytes of its digest. Two tables with open addressing: the older one is dropped when both are full.
    """

    def __init__(self) -> None:
        self._new, self._old, self._count = _table(), _table(), 0

    def add(self, key: bytes) -> None:
        if self._count == GENERATION:
            self._new, self._old, self._count = _table(), self._new, 0
        number = _number(key)
        place = _find(self._new, number)
        if not self._new[place]:
            self._new[place], self._count = number, self._count + 1

    def __contains__(self, key: bytes) -> bool:
        number = _number(key)
        return any(table[_find(table, number)] for table in (self._new, self._old))


def _table() -> memoryview[int]:
    return memoryview(bytearray(8 * SLOTS)).cast("Q")  # zeros take no memory until they are written


def _number(key: bytes) -> int:
    return int.from_bytes(key[:8], "little") or 1  # 0 is a free slot


def _find(table: memoryview[int], number: int) -> int:
    """Where it lies, or the free slot where it belongs; half of them are free."""
    place = number % SLOTS
    while table[place] not in (0, number):
        place = (place + 1) % SLOTS
    return place
