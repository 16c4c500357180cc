"""What many tests share: the fourth domain on the recipes path, and a clean place to run in."""

import signal
from pathlib import Path

import pytest

from orchard_cli import recipes

# where a shell started the tests in the background, it had them ignore Ctrl-C, and all that they start with them
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

FOURTH = Path(__file__).parent / "fourth"


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A working directory in which the `echo` domain exists."""
    monkeypatch.setattr(recipes, "__path__", [str(FOURTH), *recipes.__path__])
    monkeypatch.chdir(tmp_path)
    return tmp_path
