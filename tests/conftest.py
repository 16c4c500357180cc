"""What many tests share: the fourth domain on the recipes path, and a clean place to run in."""

from pathlib import Path

import pytest

from orchard_cli import recipes

FOURTH = Path(__file__).parent / "fourth"


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A working directory in which the `echo` domain exists."""
    monkeypatch.setattr(recipes, "__path__", [str(FOURTH), *recipes.__path__])
    monkeypatch.chdir(tmp_path)
    return tmp_path
