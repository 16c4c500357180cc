"""A benchmark of one task in claw-bench's layout, and an environment to run it in."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from orchard_cli import schema
from orchard_cli.env import open_env
from orchard_cli.env.sandbox import Env


@pytest.fixture(scope="session")
def env() -> Iterator[Env]:
    opened = open_env(schema.Env())
    yield opened
    opened.close()


@pytest.fixture
def bench(tmp_path: Path) -> Path:
    """`tasks/files/one`: count the lines of in.txt into out.txt."""
    place = tmp_path / "tasks" / "files" / "one"
    for name, text in {
        "task.toml": 'id = "one"\ntitle = "One"\ndomain = "files"\nlevel = "L1"\ntimeout = 30\n',
        "instruction.md": "Count the lines of `workspace/in.txt` into `workspace/out.txt`.",
        "environment/setup.sh": 'mkdir -p "$1/sub" && echo made > "$1/sub/setup.txt"',
        "environment/data/in.txt": "a\nb\nc\n",
        "solution/solve.sh": 'wc -l < "$1/in.txt" > "$1/out.txt"',
        "verifier/test_output.py": (
            "def test_there(workspace):\n    assert (workspace / 'out.txt').exists()\n\n"
            "def test_right(workspace):\n    assert (workspace / 'out.txt').read_text().strip() == '3'\n"
        ),
    }.items():
        file = place / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path / "tasks"
