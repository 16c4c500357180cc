"""Browsers that stand ready. One serves many attempts, one after the other, each with a fresh profile and site state.

Starting Python, Playwright's server and Chromium takes two seconds of a core, a fresh profile a tenth of that. A seat
lives in a sandbox of its own, a fork of the first attempt's, and is given up after `reuse` attempts or any fault of
ours. Processes do not outlive their sandbox, nor a sandbox its environment.
"""

import json
import secrets
import sys
import threading
import weakref
from collections import defaultdict
from contextlib import suppress
from typing import Any

from orchard_cli.env.sandbox import Sandbox
from orchard_cli.errors import AttemptError

from .chromium import PLACE
from .faults import BrowserFault
from .visit import Site, Visit
from .wire import Wire

START_S = 90.0
RESET_S = 60.0
EXIT_S = 10.0
START = """
cd {place} || exit 1
setsid {python} -B -m driver {file} >{file}.log 2>&1 </dev/null &
for _ in $(seq {tries}); do [ -s {file} ] && exec cat {file}; kill -0 $! 2>/dev/null || break; sleep 0.05; done
cat {file} 2>/dev/null || tail -c 2000 {file}.log >&2; exit 1
"""


class Seat:
    """One browser with its driver. `own` sandboxes are closed with it."""

    def __init__(self, sandbox: Sandbox, wire: Wire, *, own: bool):
        self.sandbox, self.wire, self.own = sandbox, wire, own
        self.used = 0
        self.broken = False

    @classmethod
    def start(cls, sandbox: Sandbox, *, own: bool) -> "Seat":
        """Start a driver and wait until its browser stands. Raises `BrowserFault` or `SandboxError`."""
        token = secrets.token_hex(16)
        file = f"/tmp/driver-{token[:8]}"  # noqa: S108 - inside the sandbox
        script = START.format(place=PLACE, python=sys.executable, file=file, tries=int(START_S / 0.05))
        said = sandbox.exec(script, timeout_s=START_S + 10, cwd="/", env={"DRIVER_TOKEN": token})
        address = json.loads(said.stdout or b"{}")
        if "port" not in address:
            why = address.get("error") or said.stderr.decode(errors="replace").strip() or said.reason
            raise BrowserFault("infra", "start_failed", f"the browser did not start: {why[-1500:]}")
        return cls(sandbox, Wire(sandbox.connect(address["port"]), token), own=own)

    def ask(self, op: str, timeout_s: float, **args: Any) -> dict[str, Any]:
        """See `Wire.ask`. A fault of ours leaves the seat broken."""
        try:
            return self.wire.ask(op, timeout_s, **args)
        except BrowserFault as fault:
            self.broken = self.broken or fault.ours
            raise

    def close(self) -> None:
        """End the browser; with its sandbox, if that is its own."""
        with suppress(AttemptError):
            if not self.broken:
                self.wire.ask("exit", EXIT_S)
        self.wire.close()
        if self.own:
            with suppress(AttemptError):
                self.sandbox.close()


class Seats:
    """Thread-safe. `reuse`: attempts that one browser serves; 1: a browser in each attempt's own sandbox."""

    def __init__(self, reuse: int):
        self._reuse = reuse
        self._idle: dict[str, list[Seat]] = defaultdict(list)
        self._lock = threading.Lock()
        weakref.finalize(self, _hang_up, self._idle)

    def take(self, sandbox: Sandbox, site: Site, visit: Visit) -> tuple[Seat, dict[str, Any]]:
        """A browser at the start of `visit`, and what the driver says of it."""
        while (idle := self._pop(site.name)) is not None:
            try:
                return idle, self._reset(idle, site, visit)
            except BrowserFault as fault:
                self.give(site, idle)
                if not fault.ours:  # a lost browser is replaced, a site that is down is told
                    raise
        seat = self._start(sandbox)
        try:
            return seat, self._reset(seat, site, visit)
        except BrowserFault:
            self.give(site, seat)
            raise

    def give(self, site: Site, seat: Seat) -> None:
        """Back on the shelf, unless it is worn out."""
        if seat.broken or not seat.own or seat.used >= self._reuse:
            seat.close()
            return
        try:
            seat.ask("rest", EXIT_S)
        except BrowserFault:
            seat.close()
            return
        with self._lock:
            self._idle[site.name].append(seat)

    def close(self) -> None:
        with self._lock:
            idle = [seat for seats in self._idle.values() for seat in seats]
            self._idle.clear()
        for seat in idle:
            seat.close()

    def _pop(self, name: str) -> Seat | None:
        with self._lock:
            return self._idle[name].pop() if self._idle[name] else None

    def _start(self, sandbox: Sandbox) -> Seat:
        if self._reuse <= 1:
            return Seat.start(sandbox, own=False)
        own = sandbox.fork()
        try:
            return Seat.start(own, own=True)
        except BaseException:
            own.close()
            raise

    def _reset(self, seat: Seat, site: Site, visit: Visit) -> dict[str, Any]:
        seat.used += 1
        command = [word.format(port=site.port, python=sys.executable) for word in site.command]
        return seat.ask("reset", RESET_S, command=command, port=site.port, **visit.reset())


def _hang_up(idle: dict[str, list[Seat]]) -> None:
    """Nobody will ask for these any more; what they stand in is closed by its environment."""
    for seats in idle.values():
        for seat in seats:
            seat.wire.close()
