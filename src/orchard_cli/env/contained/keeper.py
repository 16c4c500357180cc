"""All contained sandboxes of one environment, with the face that a sandbox asks things of its spawner by."""

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ...errors import Effect, SandboxError
from ..agent.closed import clear
from ..channel import Channel
from ..local.link import Reply
from . import comparison
from .door import Door
from .gates import prove
from .held import Held
from .holding import Holding
from .image import Image
from .making import DOOR, INSIDE, Making

LIMITS = {"oom": "memory", "pid_limit": "processes"}
LOOK_S, CARRY_S, ANSWER_S = 1.0, 900.0, 5.0
OWN = ("/proc", "/sys", "/dev", INSIDE, DOOR)  # what differs between any two


@dataclass(frozen=True)
class Kept:
    making: Making
    held: Held
    token: str
    channel: Channel  # for what we ask of its agent ourselves
    before: Path | None  # what its work directory was made from
    image: Image
    gone: Callable[[], None]
    doors: list[Door] = field(default_factory=list)

    @property
    def workdir(self) -> str:
        return self.making.workdir

    @property
    def python(self) -> str:
        return self.image.python


def to_keep(making: Making, held: Held, token: str, before: Path | None, image: Image) -> Kept:
    channel = Channel(held.dial, making.name, token, lambda effect: gone(held, effect))
    tidy = partial(clear, str(making.folder))
    return Kept(making, held, token, channel, before, image, tidy)


class Keeper:
    """Answers like a `Link`. Any thread may ask."""

    def __init__(self, scratch: Path, holding: Holding | None = None):
        self._scratch, self._holding = scratch, holding
        self.pid = holding.pid if holding else os.getpid()  # part of a sandbox's id, which outlives us as well
        self._kept: dict[str, Kept] = {}
        self._passed: dict[int, socket.socket] = {}
        self._count = 0
        self._lock = threading.Lock()
        self._over = threading.Event()
        threading.Thread(target=self._watch, name="orchard-contained", daemon=True).start()

    def _watch(self) -> None:
        while not self._over.wait(LOOK_S):
            for kept in tuple(self._kept.values()):
                with suppress(SandboxError):  # said again to whoever uses it
                    kept.held.look(partial(_answers, kept.channel))

    def add(self, kept: Kept) -> None:
        """Raises `SandboxError` once all has been closed: nobody would close this one."""
        with self._lock:
            if self._over.is_set():
                raise _fault("client.closed", "the environment is closed", "none")
            self._kept[kept.making.name] = kept

    def __contains__(self, name: str) -> bool:
        return name in self._kept

    def ask(self, op: str, body: bytes = b"", *, wait_s: float, box: str, **header: Any) -> Reply:
        if op == "close":
            return self._close(box)
        if op == "note" and self._holding:
            self._holding.ask("note", name=self.find(box).making.name, note=header["note"])
            return {}, b""
        kept = self.find(box)
        if not kept.held.alive():
            raise gone(kept.held, "none")
        if op == "diff":
            return {}, comparison.diff(kept.channel, kept.workdir, kept.before, self._scratch)
        if op == "connect":
            return self._connect(kept, header)
        if op in ("prove", "listen"):
            prove(kept.channel, kept.python, header["canaries"])
        return self._listen(kept, box, header["port"]) if op == "listen" else ({}, b"")

    def _connect(self, kept: Kept, header: Mapping[str, Any]) -> Reply:
        query = {"timeout_s": header["timeout_s"]}
        wait_s = header["timeout_s"] + 30.0
        return self._hand_over(kept.channel.upgrade(f"/v1/ports/{header['port']}", query=query, wait_s=wait_s))

    def _listen(self, kept: Kept, box: str, port: int) -> Reply:
        door = Door(self._scratch / box, kept.channel, port, kept.held.alive)
        with self._lock:
            if box in self._kept:
                kept.doors.append(door)
        if door not in kept.doors:
            door.close()
            raise gone(kept.held, "none")
        return self._hand_over(door.listener)

    def _hand_over(self, sock: socket.socket) -> Reply:
        with self._lock:
            self._count += 1
            self._passed[self._count] = sock
            return {"number": self._count}, b""

    def passed(self, number: int) -> int:
        with self._lock:
            return self._passed.pop(number).detach()

    def _close(self, box: str) -> Reply:
        with self._lock:
            kept = self._kept.pop(box, None)
        if kept is not None:
            kept.channel.close()
            for door in kept.doors:
                door.shut()
            try:
                kept.held.end()
            finally:
                if self._holding:
                    with suppress(SandboxError):  # without it nothing keeps the sandbox
                        self._holding.ask("drop", name=box)
                for door in kept.doors:
                    door.close()
                kept.gone()
        return {}, b""

    def find(self, box: str) -> Kept:
        kept = self._kept.get(box)
        if kept is None:
            raise _fault("client.closed", "this sandbox is closed", "none")
        return kept

    def carry(self, old: str, new: str, same: list[str]) -> None:
        """All that has changed in one since it was made, into another made from the same. Raises `SandboxError`."""
        source, target = self.find(old), self.find(new)
        query = {"skip": json.dumps([*OWN, *same])}
        since = source.channel.ask("GET", "/v1/health", again=True).record()["since"]
        try:
            asked = {**query, "since": since}
            with source.channel.stream("GET", "/v1/changed", query=asked, wait_s=CARRY_S) as (_, pieces):
                target.channel.upload("/v1/changed", _unbroken(pieces), query=query, wait_s=CARRY_S)
        except (ConnectionError, TimeoutError) as error:
            raise _broken(error) from error

    def leave(self) -> None:
        """Let go of all without an end to any."""
        self._over.set()
        for kept in tuple(self._kept.values()):
            kept.channel.close()

    def close(self) -> None:
        with self._lock:
            self._over.set()
        for name in tuple(self._kept):
            with suppress(SandboxError):  # the others are closed all the same, and the folder's end clears the rest
                self._close(name)
        for sock in self._passed.values():
            sock.close()


def _answers(channel: Channel) -> bool:
    try:
        channel.ask("GET", "/v1/health", wait_s=ANSWER_S)
    except SandboxError:
        return False
    return True


def _unbroken(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """An end of the source is not to be taken for one of whoever gets it."""
    try:
        yield from pieces
    except (ConnectionError, TimeoutError) as error:
        raise _broken(error) from error


def _broken(error: OSError) -> SandboxError:
    return SandboxError(f"the copy broke off: {error}", code="infra.copy_failed", effect="none")


def gone(held: Held, effect: Effect) -> SandboxError:
    why = held.why()
    if why in LIMITS:
        text = f"the sandbox went over its limit of {LIMITS[why]} and was ended"
        return SandboxError(text, code=f"workload.{why}", attributable="model", effect=effect, retry="fresh")
    return SandboxError(
        f"the sandbox is gone: {why or 'its agent has ended'}", code="infra.sandbox_lost", effect=effect
    )


def _fault(code: str, message: str, effect: Effect, hint: str = "") -> SandboxError:
    return SandboxError(message, code=code, attributable="client", effect=effect, retry="never", hint=hint)
