"""docs/env.md is executed: all its blocks in one shell, and every line that it shows is found in what was printed."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from test_readme import BLOCK, ROOT, commands

PAGE = (ROOT / "docs" / "env.md").read_text()
STEPS = [step for block in BLOCK.findall(PAGE) for step in commands(block)]
MARK = "::step::"
NUMBER = re.compile(r"\d[\d.]*")
BLANKS = re.compile(r"[\s─━┏┳┓┡╇┩└┴┘│┃]+")


def free_port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


def plain(text: str) -> str:
    return BLANKS.sub(" ", NUMBER.sub("#", text)).strip()


def shown_in(shown: str, printed: str) -> bool:
    """`shown` without what differs each time: an empty id stands for any."""
    return re.search(re.escape(plain(shown)).replace('"id":""', '"id":"[^"]*"'), plain(printed)) is not None


def test_what_the_page_shows_is_what_runs(tmp_path: Path) -> None:
    if shutil.which("bwrap") is None or shutil.which("curl") is None:
        pytest.skip("bubblewrap or curl is not installed")
    script = "".join(f"{command}\nprintf '\\n{MARK}\\n'\n" for command, _ in STEPS)
    port = free_port()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    shell = subprocess.Popen(
        ["bash", "-c", script.replace("8700", port)],
        cwd=tmp_path,
        env={**os.environ, "PATH": path, "COLUMNS": "200", "no_proxy": "127.0.0.1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        printed, _ = shell.communicate(timeout=150)
    finally:
        if shell.poll() is None:
            os.killpg(shell.pid, signal.SIGKILL)
    said = printed.split(f"\n{MARK}\n")
    for (command, shown), got in zip(STEPS, said, strict=False):
        for line in shown:
            assert shown_in(line, got), f"`{command}` no longer prints {line!r}; it printed:\n{got}"
    assert len(said) == len(STEPS) + 1


def test_the_page_shows_each_part_of_the_surface() -> None:
    for part in ("/v1/keys", "/v1/sandboxes?wait", "/execs", "/events", "/files", "/v1/tokens", "orchard env create"):
        assert any(part in command for command, _ in STEPS), part
