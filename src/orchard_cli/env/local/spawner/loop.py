"""One thread, many waits: file descriptors and timers."""

import heapq
import itertools
import selectors
import time
from collections.abc import Callable


class Timer:
    """A call in the future that can be called off."""

    def __init__(self, call: Callable[[], None]):
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        self.call = None


class Loop:
    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self._running = True

    def watch(self, fd: int, call: Callable[[], None], *, write: bool = False) -> None:
        """Call whenever `fd` is readable (with `write`: or writable). Replaces an earlier watch."""
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if write else 0)
        if fd in self._selector.get_map():
            self._selector.modify(fd, events, call)
        else:
            self._selector.register(fd, events, call)

    def unwatch(self, fd: int) -> None:
        if fd in self._selector.get_map():
            self._selector.unregister(fd)

    def after(self, seconds: float, call: Callable[[], None]) -> Timer:
        timer = Timer(call)
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._order), timer))
        return timer

    def stop(self) -> None:
        self._running = False

    def run(self) -> None:
        while self._running:
            for key, _ in self._selector.select(self._wait()):
                # An earlier callback of this round may have given the descriptor up.
                if self._selector.get_map().get(key.fd) is key:
                    key.data()
            self._fire()

    def _wait(self) -> float | None:
        while self._timers and self._timers[0][2].call is None:
            heapq.heappop(self._timers)
        return min(3600.0, max(0.0, self._timers[0][0] - time.monotonic())) if self._timers else None

    def _fire(self) -> None:
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            call = heapq.heappop(self._timers)[2].call
            if call is not None:
                call()
