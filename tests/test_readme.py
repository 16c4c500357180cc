"""The README is executed: every console block is run, and every line that it shows is found, in order.

Numbers are compared as numbers only in their place, not in their value: other processors give other last digits.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
NUMBER = re.compile(r"[-+–]?\d[\d,.:]*(e-\d+)?")


def commands(block: str) -> list[tuple[str, list[str]]]:
    """(command, lines shown after it) for each `$ ` line."""
    found: list[tuple[str, list[str]]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif line.strip():
            found[-1][1].append(line)
    return found


BLOCKS = [commands(block) for block in BLOCK.findall((ROOT / "README.md").read_text())]
QUICK = [block for block in BLOCKS if not block[0][0].startswith("make")]
MAKE = [block for block in BLOCKS if block[0][0].startswith("make")]


def plain(text: str) -> str:
    """Numbers become #, rulers and runs of blanks one blank: what is left is the words and their order."""
    return re.sub(r"[\s─━┏┳┓┡╇┩└┴┘│┃]+", " ", NUMBER.sub("#", text)).strip()


def run(command: str, cwd: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "COLUMNS": "200"}
    done = subprocess.run(
        command, shell=True, cwd=cwd, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    return done.stdout


def check(block: list[tuple[str, list[str]]], cwd: Path) -> None:
    for command, shown in block:
        printed = [plain(line) for line in run(command, cwd).splitlines()]
        at = 0
        for line in map(plain, shown):
            rest = [i for i, got in enumerate(printed[at:], at) if line in got]
            assert rest or not line, f"`{command}` no longer prints {line!r} there; it printed:\n" + "\n".join(printed)
            at = rest[0] if rest else at


@pytest.mark.parametrize("block", QUICK, ids=lambda block: block[0][0][:40])
def test_what_the_readme_shows_is_what_runs(block: list[tuple[str, list[str]]], tmp_path: Path) -> None:
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    check(block, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("block", MAKE, ids=lambda block: block[0][0][:40])
def test_the_demo_prints_what_the_readme_shows(block: list[tuple[str, list[str]]], tmp_path: Path) -> None:
    """In a copy of the tracked files, so that no earlier run of this checkout is taken for a new one."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, tmp_path / name)  # times too: make must not install again
    (tmp_path / ".venv").symlink_to(Path(sys.executable).parents[1])
    check(block, tmp_path)


def test_the_readme_has_blocks_to_run() -> None:
    assert len(QUICK) >= 3 and len(MAKE) == 1
