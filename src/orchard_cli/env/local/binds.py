"""Which parts of this machine a Python needs inside a sandbox."""

import sys
from pathlib import Path

from ..sandbox import Bind

SYSTEM = (Path("/usr"), Path("/bin"), Path("/lib"))


def python_binds(python: Path) -> tuple[Bind, ...]:
    """Binds, each at its own path, with which `python` (a venv's or not) works inside: its prefix and its base's.

    Nothing for what lies below /usr, which image `host` shows anyway.
    """
    folders = [python.parent.parent]
    settings = python.parent.parent / "pyvenv.cfg"
    if settings.is_file():
        for line in settings.read_text().splitlines():
            key, _, value = line.partition("=")
            if key.strip() == "home":
                folders.append(Path(value.strip()).parent)
    folders.append(python.resolve().parent.parent)
    outside = [folder for folder in dict.fromkeys(folders) if not _system(folder)]
    return tuple(Bind(folder, str(folder)) for folder in outside if folder.is_dir())


def completed(binds: tuple[Bind, ...]) -> tuple[Bind, ...]:
    """The given binds, and the base Pythons of those that are venvs."""
    extra = [
        base
        for bind in binds
        if (bind.source / "pyvenv.cfg").is_file()
        for base in python_binds(bind.source / "bin" / "python")
        if base.source != bind.source
    ]
    targets = {bind.target for bind in binds}
    return binds + tuple(bind for bind in dict.fromkeys(extra) if bind.target not in targets)


def own_python() -> tuple[tuple[Bind, ...], str]:
    """Where the system has no python3: the one that runs us, and the folder to put on PATH."""
    if Path("/usr/bin/python3").exists():
        return (), ""
    prefix = Path(sys.base_prefix)
    return (Bind(prefix, str(prefix)),), str(prefix / "bin")


def _system(folder: Path) -> bool:
    real = folder.resolve()
    return any(real.is_relative_to(place) or folder.is_relative_to(place) for place in SYSTEM)
