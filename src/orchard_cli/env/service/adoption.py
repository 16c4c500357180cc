"""Sandboxes that outlived their server are taken over by the next one on its folder."""

from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, cast

import msgspec

from ...errors import ConfigError, SandboxError
from ..sandbox import Sandbox, Spec
from .execs import Execs
from .fleet import Fleet
from .heritage import Note, read
from .live import Live

Busy = Callable[[Live], Callable[[object], None]]


class Heir(Protocol):
    """What a back end found when it started."""

    @property
    def note(self) -> str: ...

    @property
    def dead(self) -> str: ...

    def open(self, spec: Spec) -> Sandbox: ...

    def close(self) -> None: ...


async def take_over(fleet: Fleet, busy: Busy) -> int:
    """Serve again what outlived the server before us; how many. What cannot be is closed and told as lost.

    `busy` is called for each command that still runs, and what it returns when that command has ended.
    """
    taken = 0
    for heir in cast(tuple[Heir, ...], getattr(fleet.env, "left", ())):
        try:
            note = read(heir.note)
            await _take(fleet, heir, note, busy)
            taken += 1
        except (SandboxError, ConfigError, msgspec.MsgspecError):
            with suppress(SandboxError):
                await fleet.chore(heir.close)  # its record stays, and is buried as one whose sandbox was lost
    return taken


async def _take(fleet: Fleet, heir: Heir, note: Note, busy: Busy) -> None:
    if heir.dead:
        raise SandboxError(heir.dead, code="infra.sandbox_lost")
    box = await fleet.chore(lambda: heir.open(note.spec))
    live = Live(
        **{name: getattr(note, name) for name in ("id", "tenant", "key", "spec", "image", "labels", "lifetime")},
        terms=fleet.terms,
        server=fleet.server,
        kind=note.kind,
        isolation=fleet.isolation,
        level=fleet.level,
        trees=note.trees,
        created=note.created,
        born=note.born,
        adopted=True,
    )
    for place in live.trees:
        fleet.specs.trees.retain(place)
    fleet.lives[live.id] = live
    execs = Execs(live.id, box, fleet.commands)
    live.ready(box, execs)
    try:
        for execution in await execs.inherit():
            execution.ended.add_done_callback(busy(live))
        live.version = await fleet.store.put(live.record(), expect=None)
    except BaseException:
        del fleet.lives[live.id]  # nobody is shown what is going to be closed
        for place in live.trees:
            fleet.specs.trees.release(place)
        raise
    fleet.bus.say("adopted", live.id, live.tenant)
