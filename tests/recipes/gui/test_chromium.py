"""Which browser is taken, and what is said if there is none."""

from pathlib import Path

import pytest
from orchard_cli.recipes.gui import chromium

from orchard_cli.errors import ConfigError


def program(folder: Path, name: str) -> Path:
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_the_lightest_on_the_path_is_taken_unless_the_variable_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(chromium.VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    whole = program(tmp_path, "chromium")
    assert chromium.executable() == whole
    shell = program(tmp_path, "chromium-headless-shell")
    assert chromium.executable() == shell
    monkeypatch.setenv(chromium.VARIABLE, str(whole))
    assert chromium.executable() == whole


def test_no_browser_is_an_error_that_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(chromium.VARIABLE, raising=False)
    with pytest.raises(ConfigError) as caught:
        chromium.executable()
    assert "apt-get install chromium" in caught.value.hint
    monkeypatch.setenv(chromium.VARIABLE, str(tmp_path / "none"))
    with pytest.raises(ConfigError, match="is not a program"):
        chromium.executable()
