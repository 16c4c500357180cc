"""Uploaded trees that nobody uses any more."""

import os
import shutil
from pathlib import Path

import pytest

from orchard_cli.env.service.trees import Trees

HASH = "a" * 64


def test_a_sweep_that_breaks_off_leaves_no_half_tree_under_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trees = Trees(tmp_path / "trees")
    place = tmp_path / "trees" / "t" / HASH
    place.mkdir(parents=True)
    for name in ("one", "two"):
        (place / name).write_text(name)
    os.utime(place, (0, 0))

    def killed(folder: Path, **_: object) -> None:
        next(folder.iterdir()).unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            trees.sweep()
    assert trees.find("t", HASH) is None
    assert Trees(tmp_path / "trees").sweep() == 0
    assert list((tmp_path / "trees" / "part").iterdir()) == []


def test_one_that_is_used_stays(tmp_path: Path) -> None:
    trees = Trees(tmp_path / "trees")
    place = tmp_path / "trees" / "t" / HASH
    place.mkdir(parents=True)
    assert trees.take("t", HASH) == place
    os.utime(place, (0, 0))
    assert trees.sweep() == 0 and place.is_dir()
    trees.release(place)
    assert trees.sweep() == 1 and not place.exists()
