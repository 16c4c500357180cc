"""A disk that is full or may not be written to: named, what was there stays whole, the same command goes on."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.small import SMALL_MODEL

from orchard_cli.errors import RunError
from orchard_cli.launch.local import launch
from orchard_cli.trajectory.reading import read
from orchard_cli.trajectory.verify import verify

from .cli import orchard, refused

SPACE = "free some space, then give the same command: it goes on where it stopped"
SMALL = [
    "distill.attempts=4",
    "credit=none",
    "sft.unresolved=none",
    *SMALL_MODEL,
    "sft.tokens=5000",
]
RL = [
    "rl.steps=2",
    "rl.prompts=2",
    "rl.group.size=4",
    "rl.group.max=8",
    "rl.oversample=2",
    "eval.attempts=4",
]


def mount(folder: Path, *options: str) -> bool:
    if os.geteuid():
        return False
    command = ["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", str(folder)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.fixture
def disk(echo: Path) -> Iterator[Path]:
    """A disk of 16 KiB at `disk/`."""
    (echo / "disk").mkdir()
    if not mount(echo / "disk", "size=16k"):
        pytest.skip("a disk of a given size needs root and mount")
    yield echo / "disk"
    subprocess.run(["umount", "-l", str(echo / "disk")], check=True)


def grow(disk: Path, size: str) -> None:
    assert mount(disk, "remount", f"size={size}")


def test_a_disk_that_fills_up_while_distilling_loses_nothing(disk: Path) -> None:
    ended = orchard("echo", "distill", "out=disk", *SMALL, cwd=disk.parent)
    file = disk / "echo" / "demo" / "distill" / "trajectories.jsonl.zst"
    error = "disk/echo/demo/distill/trajectories.jsonl.zst cannot be written: No space left on device"
    assert ended.err.endswith(f"error: {error}\n\nhint: {SPACE}\n") and ended.code == 1
    before = {t.id for t in read(file)}
    assert 0 < len(before) < 12
    grow(disk, "1m")
    assert orchard("echo", "distill", "out=disk", *SMALL, cwd=disk.parent).code == 0
    after = [t.id for t in read(file)]
    assert before <= set(after) and len(after) == len(set(after)) == 12


def test_a_disk_that_fills_up_while_a_checkpoint_is_written_leaves_none(disk: Path) -> None:
    grow(disk, "60k")
    ended = orchard("echo", "train", "out=disk", *SMALL, cwd=disk.parent)
    assert ended.code == 1 and "no trajectories in disk/echo/demo/distill" in ended.err
    assert orchard("echo", "distill", "out=disk", *SMALL, cwd=disk.parent).code == 0
    sft = disk / "echo" / "demo" / "sft"
    for size, file in (("60k", "base"), ("220k", ".state/trainer.pt")):
        grow(disk, size)
        ended = orchard("echo", "sft", "out=disk", *SMALL, cwd=disk.parent)
        refused(ended, 1, f"disk/echo/demo/sft/{file} cannot be written: No space left on device", SPACE)
        assert not list(sft.rglob("*.part")) and not (sft / "checkpoint").exists()
    grow(disk, "4m")
    ended = orchard("echo", "sft", "out=disk", *SMALL, cwd=disk.parent)
    assert ended.code == 0, ended.err
    assert "Writing model shards" not in ended.err


@pytest.mark.slow
def test_a_disk_that_fills_up_in_rl_or_eval_is_named_and_they_go_on(disk: Path) -> None:
    words = [*SMALL, "out=disk", "harness.max_steps=3", "harness.max_tokens=32", *RL]
    grow(disk, "8m")
    for stage in ("distill", "sft"):
        assert orchard("echo", stage, *words, cwd=disk.parent).code == 0
    for stage in ("rl", "eval"):
        filler = fill(disk, leave=4096)
        ended = orchard("echo", stage, *words, cwd=disk.parent)
        assert ended.err.endswith(f"cannot be written: No space left on device\n\nhint: {SPACE}\n"), ended.err
        assert (ended.code, "Traceback" in ended.err) == (1, False)
        assert not list(disk.rglob("*.part")) and not (disk / "echo" / "demo" / stage / "done.json").exists()
        filler.unlink()
        ended = orchard("echo", stage, *words, cwd=disk.parent)
        assert ended.code == 0, ended.err
    for file in disk.rglob("*.jsonl.zst"):
        assert verify(file).ok, file


def fill(disk: Path, leave: int) -> Path:
    """A file that takes all but `leave` bytes."""
    free = os.statvfs(disk)
    file = disk / "filler"
    file.write_bytes(bytes(max(0, free.f_bavail * free.f_frsize - leave)))
    return file


@pytest.mark.parametrize(("out", "why"), [("file/x", "Not a directory"), ("/proc/nope", "No such file or directory")])
def test_an_out_that_cannot_be_a_folder_is_named(echo: Path, out: str, why: str) -> None:
    (echo / "file").touch()
    with pytest.raises(RunError) as caught:
        launch("echo", "distill", [f"out={out}"])
    assert str(caught.value) == f"{out}/echo/demo cannot be written: {why}"
    assert caught.value.hint == "choose another folder with out="


def test_a_read_only_out_is_named(disk: Path) -> None:
    assert mount(disk, "remount", "ro")
    ended = orchard("echo", "distill", "out=disk", cwd=disk.parent)
    error = "disk/echo/demo cannot be written: Read-only file system"
    refused(ended, 1, error, "the file system is read-only; choose another folder with out=")
