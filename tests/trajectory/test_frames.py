"""Frames are found wherever they begin, and nothing makes the reader hold more than one."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from orchard_cli.errors import DataError
from orchard_cli.trajectory import Store, Tail, Trajectory, read
from orchard_cli.trajectory.frames import LARGEST, Damage, Frame, frames

Make = Callable[..., Trajectory]
Write = Callable[..., Path]


def walk(path: Path) -> list[Frame | Damage]:
    file = os.open(path, os.O_RDONLY)
    try:
        return list(frames(file))
    finally:
        os.close(file)


@pytest.mark.parametrize("shift", range(5))
def test_the_next_frame_is_found_wherever_it_begins(tmp_path: Path, frame: Callable, shift: int) -> None:
    good, gap = frame(b"{}"), (1 << 20) + 2 - shift  # the search reads pieces of 1 MiB
    path = tmp_path / "f"
    path.write_bytes(b"x" * gap + good)
    damage, found = walk(path)
    assert isinstance(damage, Damage) and (damage.offset, damage.end, damage.code) == (0, gap, "garbage")
    assert found == Frame(gap, gap + len(good), b"{}\n")


@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("sized", [False, True])
@pytest.mark.parametrize("content", [b"", b"a", os.urandom(300_000), bytes(300_000)])
def test_frames_of_every_kind_are_walked(tmp_path: Path, checksum: bool, sized: bool, content: bytes) -> None:
    raw = zstandard.ZstdCompressor(write_checksum=checksum, write_content_size=sized).compress(content)
    path = tmp_path / "f"
    path.write_bytes(raw * 2)
    assert walk(path) == [Frame(0, len(raw), content), Frame(len(raw), 2 * len(raw), content)]


def test_a_frame_longer_than_any_record_is_not_read(tmp_path: Path) -> None:
    path, block = tmp_path / "f", 1 << 17
    with path.open("wb") as file:  # sparse: only headers of raw blocks are written
        file.write(b"\x28\xb5\x2f\xfd\x00\x58")
        for at in range(LARGEST // block + 1):
            file.seek(6 + at * (block + 3))
            file.write((block << 3).to_bytes(3, "little"))
    (damage,) = walk(path)
    assert isinstance(damage, Damage) and damage.code == "frame_too_large"
    assert damage.message == f"the frame is longer than {LARGEST} bytes"


def test_a_whole_frame_that_is_only_too_large_is_never_cut(tmp_path: Path, make: Make, write: Write) -> None:
    path = write(make(0))
    bomb = zstandard.ZstdCompressor().compress(bytes(LARGEST + 1))
    path.write_bytes(path.read_bytes() + bomb)
    before = path.read_bytes()
    with pytest.raises(DataError, match="frame_too_large"):
        Store(path)
    assert path.read_bytes() == before


def test_a_file_that_somebody_emptied_is_looked_at_again(tmp_path: Path, make: Make) -> None:
    path = tmp_path / "t.jsonl.zst"
    with Store(path) as store:
        store.append(make(0))
        path.write_bytes(path.read_bytes()[:30])
        store.append(make(1))
        assert store.torn == Tail(30, 1)
    assert [t.id for t in read(path)] == ["t1"]
