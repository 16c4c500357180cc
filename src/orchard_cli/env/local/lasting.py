"""What outlives a server that crashed: where its sandboxes are, written down, and each as its successor finds it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import ConfigError, SandboxError
from ..sandbox import Spec
from .elder import silent
from .link import Link
from .sandbox import LocalSandbox


@dataclass(frozen=True)
class Lasting:
    """Sandboxes live on for `keep_s` seconds without a driver; `folder` is where the next one looks for them.

    With 0 they do not, and what an earlier driver left there is ended.
    """

    folder: Path
    keep_s: float
    name: str = "spawner"  # of the file that says where they are

    @property
    def _file(self) -> Path:
        return self.folder / self.name

    def find(self, hello: dict[str, Any]) -> "tuple[Link, Path, dict[str, Any]] | None":
        """The link to what an earlier driver left, its folder, and what it tells; None: nothing, or of another kind.

        What is of another kind (isolation, version) is ended. Raises `ConfigError` if its driver lives, or is silent.
        """
        try:
            base = self.recall()
            link = Link(base)
        except (TimeoutError, BlockingIOError) as error:  # the latter: so many wait already
            raise silent() from error
        except OSError:
            return None
        told, _ = link.ask("inherit", keep_s=self.keep_s, wait_s=60)
        if not self.keep_s or any(told["hello"].get(name) != value for name, value in hello.items()):
            link.ask("bye", wait_s=60)
            link.close()
            return None
        return link, base, told

    def recall(self) -> Path:
        """The folder of the last driver's environment. Raises `OSError` if there is none."""
        return Path(self._file.read_text())

    def remember(self, base: Path) -> None:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        part = self._file.with_suffix(".part")
        part.write_text(str(base))
        part.replace(self._file)

    def forget(self) -> None:
        self._file.unlink(missing_ok=True)


@dataclass(frozen=True)
class Heir:
    """A sandbox that a dead driver left. `note` is what it said of it last; `dead` says why it is gone, if it is."""

    note: str
    dead: str
    _link: Link
    _told: dict[str, Any]
    _open: Callable[[Spec, dict[str, Any]], LocalSandbox]

    def open(self, spec: Spec) -> LocalSandbox:
        """It, with the network that the spec gives. Raises `SandboxError`, and is closed then."""
        try:
            return self._open(spec, self._told)
        except (SandboxError, ConfigError):
            self.close()
            raise

    def close(self) -> None:
        self._link.ask("close", box=self._told["box"], wait_s=600)


def heirs(
    link: Link, boxes: list[dict[str, Any]], open_: Callable[[Spec, dict[str, Any]], LocalSandbox]
) -> tuple[Heir, ...]:
    """What was left whole; what was only half made is closed."""
    found = tuple(Heir(told["note"], told["dead"], link, told, open_) for told in boxes)
    for heir in found:
        if not heir.note:
            heir.close()
    return tuple(heir for heir in found if heir.note)
