"""One thread, many waits: file descriptors and timers."""

from __future__ import annotations

import heapq
import itertools
import select
import time
from collections.abc import Callable

MANY = 1000  # timers, before anyone looks which of them were called off


class Timer:
    """A call in the future that can be called off."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[], None] | None):
        self.call = call

    def cancel(self) -> None:
        self.call = None


class Loop:
    """One thread, many waits: file descriptors and timers."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._calls: dict[int, Callable[[], None]] = {}
        self._events: dict[int, int] = {}
        self._timers: list[tuple[float, int, Timer]] = []
        self._order, self._many = itertools.count(), MANY
        self._running = True

    def watch(self, fd: int, call: Callable[[], None], *, write: bool = False, read: bool = True) -> None:
        """Call whenever `fd` is readable (with `write`: or writable). Replaces an earlier watch."""
        events = (select.EPOLLIN if read else 0) | (select.EPOLLOUT if write else 0)
        if fd in self._calls:
            self._poll.modify(fd, events)
        else:
            self._poll.register(fd, events)
        self._calls[fd], self._events[fd] = call, events

    def unwatch(self, fd: int) -> None:
        if self._calls.pop(fd, None) is not None:
            self._poll.unregister(fd)
            del self._events[fd]

    def renew(self) -> None:
        """Watch the same by a new list: gVisor's may go on holding what was closed while something came over it."""
        self._poll.close()
        self._poll = select.epoll()
        for fd, events in self._events.items():
            self._poll.register(fd, events)

    def after(self, seconds: float, call: Callable[[], None]) -> Timer:
        timer = Timer(call)
        if len(self._timers) >= self._many:
            self._tidy()
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._order), timer))
        return timer

    def _tidy(self) -> None:
        """Those that were called off would lie here until they are due: hours, for each word of a command."""
        self._timers = [entry for entry in self._timers if entry[2].call is not None]
        heapq.heapify(self._timers)
        self._many = 2 * len(self._timers) + MANY

    def stop(self) -> None:
        self._running = False

    def run(self) -> None:
        while self._running:
            ready = [(fd, self._calls.get(fd)) for fd, _ in self._poll.poll(self._wait(), 64)]
            for fd, call in ready:
                # An earlier callback of this round may have given the descriptor up.
                if call is not None and self._calls.get(fd) is call:
                    call()
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
