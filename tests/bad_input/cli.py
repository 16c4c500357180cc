"""The real command in a process of its own, and what it said."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

FOURTH = Path(__file__).parents[1] / "fourth"


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


def start(*words: str, cwd: Path, **env: str) -> subprocess.Popen[str]:
    """`orchard …` with the echo domain, in a session of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "orchard_cli", *words],
        cwd=cwd,
        env={**os.environ, "ORCHARD_RECIPES": str(FOURTH), **env},
        text=True,
        encoding="utf-8",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def orchard(*words: str, cwd: Path, **env: str) -> Ended:
    process = start(*words, cwd=cwd, **env)
    out, err = process.communicate(timeout=200)
    return Ended(process.returncode, out, err)


def refused(ended: Ended, code: int, error: str, hint: str) -> None:
    """It ended with `code` and these two lines last, without a traceback and with nothing on stdout."""
    assert ended.err.endswith(f"error: {error}\n\nhint: {hint}\n"), ended.err
    assert (ended.code, ended.out) == (code, "")
    assert "Traceback" not in ended.err
