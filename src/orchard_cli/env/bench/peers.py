"""SWE-ReX's and mini-swe-agent's local environments, in a virtual environment of their own: no dependency of ours."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from .times import Figures, Note, figures

WANTED = ("swe-rex==1.4.0", "mini-swe-agent==2.4.6")
INSTALL_S, RUN_S = 900, 300


def peers(folder: Path, repeat: int, note: Note) -> dict[str, Figures]:
    """What `echo hi` takes with each. `folder` gets the virtual environment, once. Empty, with a note, without one."""
    python = folder / "venv" / "bin" / "python"
    try:
        if not (folder / "installed").exists():
            note(f"installing {' and '.join(WANTED)} into {folder} …")
            _install(folder, python)
        environment = {**os.environ, "MSWEA_SILENT_STARTUP": "1", "MSWEA_GLOBAL_CONFIG_DIR": str(folder / "config")}
        argv = [str(python), str(Path(__file__).with_name("driver.py")), str(max(1, repeat))]
        said = _run(argv, RUN_S, environment)
        return {name: figures(times) for name, times in json.loads(said.splitlines()[-1]).items()}
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        text = getattr(error, "stderr", "") or str(error)
        note(f"without peers: {text.strip().splitlines()[-1] if text.strip() else type(error).__name__}")
        return {}


def _install(folder: Path, python: Path) -> None:
    """Whole or, when it fails or is interrupted, not at all: neither a folder of ours is left nor what pip unpacks."""
    made = [place for place in (folder.absolute(), *folder.absolute().parents) if not place.exists()]
    try:
        work = folder / "work"
        work.mkdir(parents=True, exist_ok=True)
        _run([sys.executable, "-m", "venv", "--clear", str(folder / "venv")], INSTALL_S)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *WANTED]
        _run(pip, INSTALL_S, {**os.environ, "TMPDIR": str(work)})
        (folder / "installed").touch()
    except BaseException:
        shutil.rmtree(made[-1] if made else folder / "venv", ignore_errors=True)
        raise
    finally:
        shutil.rmtree(folder / "work", ignore_errors=True)


def _run(argv: list[str], timeout_s: float, env: dict[str, str] | None = None) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=timeout_s, env=env).stdout
