"""What a server notes of each sandbox that may outlive it, for the next one (see `adoption`).

The note lies in the memory of the process that holds the sandboxes, never on a disk: it names variables of the spec.
"""

from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import msgspec

from ..sandbox import Env, Sandbox, Spec
from .bodies import Lifetime
from .live import Live
from .store.store import Kind


class Note(msgspec.Struct, frozen=True):
    """What is not written down in the store, or may be lost with it. `born` is monotonic: one clock per machine."""

    id: str
    tenant: str
    key: str
    kind: Kind
    spec: Spec
    image: str
    labels: dict[str, str]
    lifetime: Lifetime
    trees: list[Path]
    created: float
    born: float


@runtime_checkable
class Keeps(Protocol):
    """A sandbox that can be told what its next server should know."""

    def note(self, text: str) -> None: ...


@runtime_checkable
class Checks(Protocol):
    """A back end that says at once what it will refuse, so that nothing is written down of it."""

    def check(self, spec: Spec) -> None: ...


def noted(env: Env, live: Live, box: Sandbox) -> Sandbox:
    """Say of a sandbox what it is, if it can outlive us. Raises `SandboxError` if it is gone; blocks."""
    if getattr(env, "outlives", False) and isinstance(box, Keeps):
        note = Note(**{name: getattr(live, name) for name in Note.__struct_fields__})
        box.note(msgspec.json.encode(note, enc_hook=str).decode())
    return box


def read(note: str) -> Note:
    """Raises `msgspec.MsgspecError` for what another version wrote."""
    return msgspec.json.decode(note, type=Note, dec_hook=_path)


def _path(kind: type, value: Any) -> Any:
    return kind(value)
