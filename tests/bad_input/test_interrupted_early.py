"""Ctrl-C before the command has been loaded."""

import signal
import subprocess
import sys

import pytest

ASKED = """
import importlib.abc, os, signal, sys
class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
sys.argv = ["orchard", "--version"]
from orchard_cli.__main__ import main
main()
"""


@pytest.mark.parametrize("module", ["orchard_cli.cli", "typer", "orchard_cli.errors"])
def test_it_is_an_end_without_words(module: str) -> None:
    found = subprocess.run([sys.executable, "-c", ASKED.format(module=module)], capture_output=True, check=False)
    assert (found.returncode, found.stdout, found.stderr) == (-signal.SIGINT, b"", b"")
