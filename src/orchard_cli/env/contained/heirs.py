"""Contained sandboxes that a dead driver left: how each is written down for the next, and found."""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from ...errors import ConfigError, SandboxError
from ..sandbox import Limits, Sandbox, Spec
from .held import Held
from .holding import Left
from .image import Image
from .keeper import Keeper, Kept, to_keep
from .making import Making, Mount, Runtime


@dataclass(frozen=True)
class Heir:
    """`note` is what its driver said of it last; `dead` says why it is gone, if it is."""

    note: str
    dead: str
    _kept: Kept = field(repr=False)  # its token is nobody's business
    _keeper: Keeper
    _open: Callable[[Spec, Kept], Sandbox]

    def open(self, spec: Spec) -> Sandbox:
        """It, with the network that the spec gives. Raises `SandboxError`, and is closed then."""
        same = replace(spec, workdir=self._kept.workdir, limits=self._kept.making.limits)
        try:
            return self._open(same, self._kept)
        except (SandboxError, ConfigError):
            self.close()
            raise

    def close(self) -> None:
        self._keeper.ask("close", box=self._kept.making.name, wait_s=600)


def heirs(
    keeper: Keeper, runtime: Runtime, left: Iterable[Left], open_: Callable[[Spec, Kept], Sandbox]
) -> tuple[Heir, ...]:
    """What was left whole is kept from now on; what was only half made is closed."""
    found = []
    for record, passage in left:
        one = _read(record, partial(runtime.again, passage=passage, told=record["told"]))
        keeper.add(one)
        dead = "" if one.held.alive() else one.held.why() or "its agent has ended"
        heir = Heir(record["note"], dead, one, keeper, open_)
        found.append(heir) if heir.note else heir.close()
    return tuple(found)


def written(one: Kept, told: dict[str, Any]) -> dict[str, Any]:
    """For JSON; `told` is what its runtime wants to know again."""
    making = one.making
    return {
        "name": making.name,
        "folder": str(making.folder),
        "root": str(making.root),
        "mounts": [[str(mount.source), mount.target, mount.writable] for mount in making.mounts],
        "workdir": making.workdir,
        "limits": asdict(making.limits),
        "argv": list(making.argv),
        "token": one.token,
        "before": str(one.before) if one.before else "",
        "image": [str(one.image.root), dict(one.image.env), one.python],
        "told": told,
    }


def _read(record: dict[str, Any], again: Callable[[Making], Held]) -> Kept:
    making = Making(
        record["name"],
        Path(record["folder"]),
        Path(record["root"]),
        [Mount(Path(source), target, writable) for source, target, writable in record["mounts"]],
        record["workdir"],
        Limits(**record["limits"]),
        record["argv"],
    )
    root, env, python = record["image"]
    before = Path(record["before"]) if record["before"] else None
    return to_keep(making, again(making), record["token"], before, Image(Path(root), env, python))
