"""A bounded list of numbered frames that any number of readers follow from wherever they left off."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any

Frame = dict[str, Any]
ALONE_S = 60.0  # how long a paced one waits for a reader when it has none


class Journal:
    """Frames get `seq` 1, 2, …; the oldest are dropped beyond `max_bytes`, and a reader is told of the gap.

    A `paced` one drops nothing that no reader was given; whoever fills it asks `when_room` there is for more. It is one
    like any other once it has had no reader for `ALONE_S`. All methods belong to one event loop.
    """

    def __init__(self, max_bytes: int = 1 << 20, max_frames: int = 10_000, *, paced: bool = False):
        self._frames: deque[tuple[Frame, int]] = deque()
        self._bytes, self._max_bytes, self._max_frames = 0, max_bytes, max_frames
        self.last = 0
        self.closed = False
        self._more = asyncio.Event()
        self.paced, self._given, self._ahead = paced, 0, 0  # the last that was given; bytes of those after it
        self._readers, self._left, self._hurried = 0, time.monotonic(), False
        self._waiting: list[Callable[[], object]] = []

    def add(self, frame: Frame, size: int = 100, seq: int = 0) -> None:
        """`seq` above the next number says that those between are not known here: readers are told of a gap."""
        self.last = max(self.last + 1, seq)
        self._frames.append(({"seq": self.last, **frame}, size))
        self._bytes += size
        self._ahead += size
        while len(self._frames) > 1 and (self._bytes > self._max_bytes or len(self._frames) > self._max_frames):
            if self.paced and self._frames[0][0]["seq"] > self._given:
                break
            self._bytes -= self._frames.popleft()[1]
        self._wake()

    def close(self) -> None:
        self.closed = True
        self._wake()

    def _wake(self) -> None:
        more, self._more = self._more, asyncio.Event()
        more.set()

    # -- pace

    @property
    def full(self) -> bool:
        return self.paced and not self._hurried and self._ahead > self._max_bytes // 4

    def when_room(self, call: Callable[[], object]) -> None:
        """Now, or once a reader was given what is here."""
        self._waiting.append(call)
        self._let_in()

    def _let_in(self) -> None:
        if not self.full:
            calls, self._waiting = self._waiting, []
            for call in calls:
                call()

    def look(self) -> None:
        """Whoever waits for a reader asks whether there still is one."""
        if not self._readers and time.monotonic() - self._left > ALONE_S:
            self.let_go()

    def hurry(self) -> None:
        """Take all that is still to come, as its end has: whoever waits for that need not wait for a reader."""
        self._hurried = True
        self._let_in()

    def let_go(self) -> None:
        """Wait for no reader from now on."""
        self.paced = False
        self._let_in()

    def _give(self, frame: Frame, size: int) -> None:
        if frame["seq"] > self._given:
            self._given = frame["seq"]
            self._ahead -= size
            self._let_in()

    def _pass(self, seq: int) -> None:
        """A reader wants nothing up to there."""
        seq = min(seq, self.last)
        if seq > self._given:
            self._given, self._ahead = seq, sum(size for frame, size in self._frames if frame["seq"] > seq)
            self._let_in()

    # -- readers

    def after(self, seq: int) -> list[Frame]:
        """What there is after `seq`; a `gap` first if some of it was dropped."""
        return [frame for frame, _ in self._after(seq)]

    def _after(self, seq: int) -> list[tuple[Frame, int]]:
        found: list[tuple[Frame, int]] = []
        for frame, size in self._frames:
            if frame["seq"] > seq:
                if frame["seq"] > seq + 1:
                    found.append(({"seq": frame["seq"] - 1, "type": "gap", "missed": frame["seq"] - 1 - seq}, 0))
                found.append((frame, size))
                seq = frame["seq"]
        return found

    async def follow(self, after: int, ping_s: float = 5.0) -> AsyncIterator[Frame]:
        """Frames as they come, a `ping` (without a number) when none came for `ping_s`; ends when closed."""
        self._readers += 1
        self._pass(after)
        try:
            while True:
                more, closed = self._more, self.closed
                for frame, size in self._after(after):
                    after = frame["seq"]
                    yield frame
                    self._give(frame, size)
                if closed:
                    return
                try:
                    await asyncio.wait_for(more.wait(), ping_s)
                except TimeoutError:
                    yield {"type": "ping"}
        finally:
            self._readers, self._left = self._readers - 1, time.monotonic()
