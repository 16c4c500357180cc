"""Forks of a sandbox, one after the other: each may change what the next one finds."""

import json
import os
from collections.abc import Callable
from functools import partial

from ...agent.loop import Loop
from . import sealing
from .box import Box
from .enter import Plan
from .faults import Fault, Header, guarded
from .job import Job

DEADLINE = 600.0  # seconds to copy the files of a sandbox


class Fork:
    """Fills the files of `place` with those of `source`, in a child of its own, so that nobody else waits.

    Calls `then`, or `failed` with the fault, when it is done; before that `source` is not closed.
    """

    def __init__(self, loop: Loop, source: Box, place: Box, then: Callable[[], None], failed: Callable[[Header], None]):
        self._loop, self._source, self._place, self._then, self._failed = loop, source, place, then, failed
        self._layer = -1
        source.turns.append(self._begin)
        if len(source.turns) == 1:
            self._begin()

    def _begin(self) -> None:
        guarded(self._start, lambda fault: self._next(partial(self._failed, fault)))

    def _start(self) -> None:
        source = self._source
        self._layer = source.layers.detached(source.changes)
        call = partial(sealing.fill, source.origin(self._layer), self._place.changes)
        try:
            Job(self._loop, source.door, Plan(call, inside=False), self._ended, timeout=DEADLINE)
        except OSError:
            self._drop()
            raise

    def _ended(self, job: Job) -> None:
        faults: list[Header] = []
        guarded(lambda: self._settle(job), faults.append)
        self._drop()
        self._next(partial(self._failed, faults[0]) if faults else self._then)

    def _settle(self, job: Job) -> None:
        """Note what the child has made of the layers of both."""
        said = job.output.keep.value().decode().splitlines()
        if said and said[-1] == sealing.TRYING:
            self._source.end("whether a fork has sealed its files could not be told")
        if job.fault is not None or job.exit_code != 0:
            fault = job.fault or {"code": "infra.copy_failed", "message": ""}
            message = fault["message"] or f"copy: {job.errors.keep.value().decode(errors='replace')}"
            raise Fault(**{**fault, "message": message})
        told, layers = json.loads(said[-1]), self._source.layers
        layers.fixed = told["fixed"]
        if not told["why"]:
            layers.seal(self._layer, told["device"], told["size"])
            self._layer = -1
            self._source.grow()
        self._place.layers.share(layers)
        self._place.way = f"copied: {told['why']}" if told["why"] else "sealed"

    def _drop(self) -> None:
        if self._layer >= 0:
            os.close(self._layer)
            self._layer = -1

    def _next(self, call: Callable[[], None]) -> None:
        turns = self._source.turns
        turns.popleft()
        if turns:
            turns[0]()
        call()
