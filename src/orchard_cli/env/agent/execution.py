"""One command, from start to record."""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress

from .hearing import Hearing
from .house import House
from .kinds import Any
from .launch import Launch, resize
from .loop import Timer
from .order import Order
from .output import Ring, Stream
from .problem import Json, Problem
from .record import End, described

GRACE_OUTPUT = 0.05  # seconds that late output of children may still take after the leader has ended
SWEEP_AFTER, GIVE_UP_AFTER = 40, 150  # rounds of killing by name


class Execution:
    """`state` is `running`, then `done` with a `record`. Raises `Problem` if the command cannot be started."""

    def __init__(self, house: House, order: Order, base: dict[str, str], *, key: bytes = b"", digest: bytes = b""):
        self.id, self.key, self.digest, self.order = os.urandom(8).hex(), key, digest, order
        self.record: Json = {}
        self.ring = Ring(order.ring, order.paced)
        self.began = time.monotonic()
        self.followers: list[Callable[[], None]] = []  # called whenever there is a new event
        self.waiters: list[Callable[[], None]] = []  # called once, when it is done
        self.spools: list[int] = []
        self._house, self._loop, self._ground = house, house.loop, house.ground
        self._status: int | None = None  # wait status of the leader
        self._usage: Any = None
        self.state, self._over, self._killed_for = "running", False, ""
        self._timer, self._silence = Timer(None), Timer(None)
        self._before = self._ground.counters()
        self._launch = Launch(order, self._loop, self._ground, base, house.workdir)
        self._mark, self.feed = self._launch.mark, self._launch.feed
        self._struck: set[int] = set()  # who is slow to die
        named = zip(("out", "err"), self._launch.reads)
        self._streams = [Stream(fd, order.cap, self._hearer(name)) for name, fd in named]
        self._said: tuple[bytes, ...] = ()  # what was kept of each stream, once it is done
        if self._launch.failure is not None:
            self._failed(self._launch.failure)
        else:
            self._run()

    def _run(self) -> None:
        self._house.children.lead(self._launch.pid, self._leader_ended)
        self.ring.add("started", {})
        for stream in self._streams:
            self._watch(stream)
        self._timer = self._loop.after(self.order.timeout, lambda: self.stop("timeout"))
        self._hush()

    def _failed(self, error: OSError) -> None:
        """No process came of it: said in the way a shell would."""
        if error.errno == errno.EAGAIN:
            self._killed_for = "pid_limit"
        else:
            text = f"{(self.order.argv or ['sh'])[0]}: {error.strerror}\n"
            self._streams[-1].say(os.fsencode(text))
            self._status = (127 if error.errno in (errno.ENOENT, errno.ENOTDIR) else 126) << 8
        self._finish()

    # -- while it runs

    def _hearer(self, name: str) -> Callable[[bytes], None] | None:
        order = self.order
        if not (order.ring or order.spool or order.silence):
            return None
        spool = self._house.spool() if order.spool else -1
        if order.spool:
            self.spools.append(spool)
        return Hearing(name, self.ring if order.ring else None, spool, order.spool, self._heard).add

    def _heard(self) -> None:
        self._tell()
        self._hush()

    def _hush(self) -> None:
        """Start waiting for the next word anew, where there is a limit to silence."""
        if not self._over and not self._killed_for and self.order.silence:
            self._silence.cancel()
            late = lambda: self._hush() if self.ring.full else self.stop("no_output_timeout")  # noqa: E731
            self._silence = self._loop.after(self.order.silence, late)

    def _tell(self) -> None:
        for call in list(self.followers):
            call()

    def _watch(self, stream: Stream) -> None:
        if stream.open and not self._over and not self.ring.waits(lambda: self._watch(stream)):
            self._loop.watch(stream.fd, lambda: self._readable(stream))

    def _readable(self, stream: Stream) -> None:
        stream.read()
        if not stream.open:
            self._loop.unwatch(stream.fd)
            self._end_if_silent()
        elif stream.flooding or self.ring.full:
            self._loop.unwatch(stream.fd)
            self._loop.after(0.001, lambda: self._watch(stream))

    def resize(self, rows: object, cols: object) -> None:
        if self._over or self._launch.master < 0:
            raise Problem(409, "client.no_terminal", "this command has no terminal")
        resize(self._launch.master, rows, cols)

    def _leader_ended(self, status: int, usage: Any) -> None:
        if status == signal.SIGKILL and not self._killed_for and self._ground.gone():
            return  # it fell with its sandbox: whoever waits learns that from our own end, which comes now
        self._status, self._usage = status, usage
        if self._over or self._killed_for:
            return
        self._timer.cancel()
        self._timer = self._loop.after(GRACE_OUTPUT, self._finish)
        self._read_rest()
        self._end_if_silent()

    def _end_if_silent(self) -> None:
        """The leader has ended and nobody holds its output any more: no need to wait for late words."""
        if self._status is not None and not self._killed_for and not any(s.open for s in self._streams):
            self._finish()

    # -- ending it early

    def stop(self, reason: str) -> None:
        """End everything that the command started: TERM, a grace, KILL. The sandbox goes on."""
        if self._begin_killing(reason):
            self.signal(signal.SIGTERM)
            self._await_end(time.monotonic() + self.order.grace)

    def kill(self, reason: str) -> None:
        """The same without grace."""
        if self._begin_killing(reason):
            self._kill_round(0)

    def _begin_killing(self, reason: str) -> bool:
        if self._over or self._killed_for or self._status is not None:
            return False
        self._killed_for = reason
        self._timer.cancel()
        return True

    def _await_end(self, until: float) -> None:
        if self._ended():
            self._finish()
        elif time.monotonic() >= until:
            self._kill_round(0)
        else:
            self._timer = self._loop.after(0.01, lambda: self._await_end(until))

    def _kill_round(self, count: int) -> None:
        if (count and self._ended()) or count > GIVE_UP_AFTER:
            self._finish()
            return
        if count >= SWEEP_AFTER and self._ground.members.fresh(self._mark, self._struck) and count > SWEEP_AFTER:
            self._ground.kill_everyone()  # something inside multiplies faster than we can name it
        self._ground.freeze(True)
        self.signal(signal.SIGKILL)
        self._ground.freeze(False)
        self._timer = self._loop.after(0.002 if count < 5 else 0.02, lambda: self._kill_round(count + 1))

    def signal(self, number: int) -> None:
        """To everything that the command started."""
        if not self._over:
            hit = self._ground.members.send(self._mark, number)
            if self._status is None and not hit:
                with suppress(ProcessLookupError):
                    os.kill(self._launch.pid, number)  # ours, and not yet collected: the number is its own

    def _ended(self) -> bool:
        self._house.children.reap()
        return self._status is not None and not self._ground.members.pids(self._mark)

    def _finish(self) -> None:
        if self._over:
            return
        left = self._left()
        if left and self.order.linger == "none":
            self._killed_for = "done"
            self._kill_round(0)
            return
        self._over = True
        self._timer.cancel()
        self._silence.cancel()
        self._read_rest()
        self._close(bool(left))
        self.record, self.state = self._describe(left), "done"
        self.ring.add("exit", self.record)
        self._lighten()
        self._house.finished(self)
        calls, self.waiters = self.waiters, []
        self._tell()
        for call in calls:
            call()

    def _lighten(self) -> None:
        """Hundreds that are done are kept: with their result, without what they were started from."""
        self._said, self._streams = tuple(stream.keep.value() for stream in self._streams), []
        del self.order, self._launch

    def _left(self) -> tuple[int, ...]:
        if self._killed_for or self._launch.pid < 0 or self._house.children.left_nobody():
            return ()
        return self._ground.members.pids(self._mark)

    def _close(self, somebody_left: bool) -> None:
        for stream in self._streams:
            self._loop.unwatch(stream.fd)
        if self.feed is not None:
            self.feed.close()
        adopted = [stream for stream in self._streams if stream.open and somebody_left]
        for stream in self._streams:
            if stream not in adopted:
                os.close(stream.fd)
        self._house.sink.adopt(adopted)

    def _read_rest(self) -> None:
        for stream in self._streams:
            if stream.open:
                stream.read(rounds=64)

    def _describe(self, left: tuple[int, ...]) -> Json:
        killed = "" if self._killed_for == "done" else self._killed_for
        end = End(self._status or 0, killed, time.monotonic() - self.began, self._usage)
        return described(end, self._ground, self._before, [stream.keep.seen for stream in self._streams], left)

    def result(self) -> tuple[Json, bytes]:
        """The record, and the output that was kept: one stream after the other."""
        told = {"id": self.id, "state": self.state, "last": self.ring.next - 1, **self.record}
        return {**told, "kept": [len(part) for part in self._said]}, b"".join(self._said)

    @property
    def kept(self) -> int:
        """Bytes of output that it holds."""
        return sum(map(len, self._said))

    def forget(self) -> None:
        for fd in filter(lambda fd: fd >= 0, self.spools):
            os.close(fd)
        self.spools = []
