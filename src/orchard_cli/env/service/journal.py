"""A bounded list of numbered frames that any number of readers follow from wherever they left off."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

Frame = dict[str, Any]


class Journal:
    """Frames get `seq` 1, 2, …; the oldest are dropped beyond `max_bytes`, and a reader is told of the gap.

    All methods belong to one event loop.
    """

    def __init__(self, max_bytes: int = 1 << 20, max_frames: int = 10_000):
        self._frames: deque[tuple[Frame, int]] = deque()
        self._bytes, self._max_bytes, self._max_frames = 0, max_bytes, max_frames
        self.last = 0
        self.closed = False
        self._more = asyncio.Event()

    def add(self, frame: Frame, size: int = 100, seq: int = 0) -> None:
        """`seq` above the next number says that those between are not known here: readers are told of a gap."""
        self.last = max(self.last + 1, seq)
        self._frames.append(({"seq": self.last, **frame}, size))
        self._bytes += size
        while len(self._frames) > 1 and (self._bytes > self._max_bytes or len(self._frames) > self._max_frames):
            self._bytes -= self._frames.popleft()[1]
        self._wake()

    def close(self) -> None:
        self.closed = True
        self._wake()

    def _wake(self) -> None:
        more, self._more = self._more, asyncio.Event()
        more.set()

    def after(self, seq: int) -> list[Frame]:
        """What there is after `seq`; a `gap` first if some of it was dropped."""
        found: list[Frame] = []
        for frame, _ in self._frames:
            if frame["seq"] > seq:
                if frame["seq"] > seq + 1:
                    found.append({"seq": frame["seq"] - 1, "type": "gap", "missed": frame["seq"] - 1 - seq})
                found.append(frame)
                seq = frame["seq"]
        return found

    async def follow(self, after: int, ping_s: float = 5.0) -> AsyncIterator[Frame]:
        """Frames as they come, a `ping` (without a number) when none came for `ping_s`; ends when closed."""
        while True:
            more, closed = self._more, self.closed
            for frame in self.after(after):
                after = frame["seq"]
                yield frame
            if closed:
                return
            try:
                await asyncio.wait_for(more.wait(), ping_s)
            except TimeoutError:
                yield {"type": "ping"}
