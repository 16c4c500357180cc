"""Keys and values of prompts and conversations that may go on; the least recently used are forgotten first."""

from collections import OrderedDict

from .slots import Saved

Key = tuple[int | str, ...]


class Prefixes:
    """A mapping from token ids, with the names of their pictures, to what `Slots.save` gave for them.

    It holds at most `memory` bytes.
    """

    def __init__(self, memory: int):
        self.memory = memory
        self._known: OrderedDict[Key, Saved] = OrderedDict()
        self._used = 0

    def __contains__(self, ids: Key) -> bool:
        return ids in self._known

    def get(self, ids: Key) -> Saved | None:
        if ids in self._known:
            self._known.move_to_end(ids)
        return self._known.get(ids)

    def put(self, ids: Key, saved: Saved) -> None:
        if ids not in self._known:
            self._known[ids] = saved
            self._used += saved.nbytes
        self._known.move_to_end(ids)
        while self._used > self.memory:
            self._used -= self._known.popitem(last=False)[1].nbytes

    def clear(self) -> None:
        self._known.clear()
        self._used = 0
