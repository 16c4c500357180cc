"""docs/sdk.md is executed: its blocks are one Python program, run against a server that was started for it."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pages import MARK, check, play, steps

KEY = "a-key-of-this-test"
STEPS = steps("sdk.md")


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    serve = [sys.executable, "-m", "orchard_cli", "env", "serve", "--port", "0", "--state", str(tmp_path / "state")]
    with subprocess.Popen(
        serve, env={**os.environ, "ORCHARD_ENV_API_KEY": KEY}, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.send_signal(signal.SIGINT)


def test_what_the_page_shows_is_what_runs(url: str, tmp_path: Path) -> None:
    program = tmp_path / "page.py"
    program.write_text("".join(f"{step.code}print('\\n{MARK}')\n" for step in STEPS))
    here = tmp_path / "here"
    here.mkdir()
    printed = play(
        [sys.executable, "-u", str(program)], here, timeout_s=150, ORCHARD_ENV_URL=url, ORCHARD_ENV_API_KEY=KEY
    )
    said = printed.split(f"\n{MARK}\n")
    said[-2:] = [said[-2] + said[-1], ""]  # the last block shows what is said when the process ends
    check(STEPS, said)
