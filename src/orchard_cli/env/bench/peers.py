"""SWE-ReX's and mini-swe-agent's local environments, in a virtual environment of their own: no dependency of ours."""

import json
import os
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
            _run([sys.executable, "-m", "venv", "--clear", str(folder / "venv")], INSTALL_S)
            _run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *WANTED], INSTALL_S)
            (folder / "installed").touch()
        environment = {**os.environ, "MSWEA_SILENT_STARTUP": "1", "MSWEA_GLOBAL_CONFIG_DIR": str(folder / "config")}
        argv = [str(python), str(Path(__file__).with_name("driver.py")), str(max(1, repeat))]
        said = _run(argv, RUN_S, environment)
        return {name: figures(times) for name, times in json.loads(said.splitlines()[-1]).items()}
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        text = getattr(error, "stderr", "") or str(error)
        note(f"without peers: {text.strip().splitlines()[-1] if text.strip() else type(error).__name__}")
        return {}


def _run(argv: list[str], timeout_s: float, env: dict[str, str] | None = None) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=timeout_s, env=env).stdout
