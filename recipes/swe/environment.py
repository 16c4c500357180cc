"""The cached virtual environment in which a `pypi` task's tests run, keyed by its requirements and this Python.

Only wheels are installed: building a source distribution would run its code outside any sandbox. A folder is
used only once it holds its marker, so that one whose making was cut short is made anew.
"""

import hashlib
import json
import shutil
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

from filelock import FileLock

from orchard_cli.env.sandbox import Bind
from orchard_cli.errors import SandboxError

from .sdist import folder, last_words, pip

MARKER = "orchard.json"
LAYOUT = "1"


def environment(setup: Sequence[str]) -> Path:
    """The folder of the environment that has exactly `setup` installed. Raises `SandboxError`."""
    wanted = sorted(setup)
    facts = [LAYOUT, sys.version, sys.base_prefix, *wanted]
    key = hashlib.sha256("\n".join(facts).encode()).hexdigest()[:24]
    target = folder("venvs") / key
    if (target / MARKER).exists():
        return target
    with FileLock(folder("locks") / f"venv-{key}.lock"):
        if not (target / MARKER).exists():
            shutil.rmtree(target, ignore_errors=True)
            _make(target, wanted)
            (target / MARKER).write_text(json.dumps({"setup": wanted, "python": sys.version}))
    return target


def plugin_folder(target: Path) -> Path:
    """An empty folder on the environment's import path, last; the grader shows its pytest plugin there.

    PYTHONPATH would not do: test commands set it themselves.
    """
    return target / "plugins"


def binds(target: Path) -> tuple[Bind, ...]:
    """What a sandbox must see for the environment's `python` to start: itself and the Python it was made from."""
    base = Path(sys.base_prefix)
    bases = {base, base.resolve()} - {p for p in (base, base.resolve()) if p.is_relative_to("/usr")}
    return (Bind(target, str(target)), *(Bind(p.resolve(), str(p)) for p in sorted(bases)))


def variables(target: Path) -> dict[str, str]:
    return {
        "PATH": f"{target / 'bin'}:/usr/local/bin:/usr/bin:/bin",
        "VIRTUAL_ENV": str(target),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "PAGER": "cat",
        "GIT_PAGER": "cat",
        # the tree belongs to whoever unpacked it; git asks for this where user ids are mapped
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": "*",
    }


def _make(target: Path, wanted: list[str]) -> None:
    venv.EnvBuilder(symlinks=True, with_pip=False).create(target)
    python = target / "bin" / "python"
    if wanted:
        done = pip("install", "--only-binary", ":all:", *wanted, python=python)
        if done.returncode:
            raise SandboxError(
                f"the environment of {', '.join(wanted)} could not be made: {last_words(done.stdout)}",
                code="setup_failed",
                effect="none",
                retry="same",
                hint="is the package index reachable? later runs work from the cache",
            )
    plugin_folder(target).mkdir()
    site = target / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    (site / "orchard.pth").write_text(f"{plugin_folder(target)}\n")
