"""Installing what we are measured beside leaves nothing behind when it fails or is interrupted."""

from pathlib import Path

import pytest

from orchard_cli.env.bench import peers


def test_a_folder_that_was_made_is_taken_away_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "WANTED", ("--no-index", "no-such-package-of-ours"))
    said: list[str] = []
    assert peers.peers(tmp_path / "new" / "deep", 1, said.append) == {}
    assert said[-1].startswith("without peers: ")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_was_there_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").write_text("x")

    def interrupted(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(peers, "_run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        peers.peers(tmp_path, 1, print)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
