"""Blobs are named by their content: stored once, found again, and never taken for another."""

import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from orchard_cli.errors import DataError, RunError
from orchard_cli.trajectory import SCHEMA, Blobs, Message, Trajectory, read
from orchard_cli.trajectory.render import render
from orchard_cli.trajectory.verify import verify

Make = Callable[..., Trajectory]
Write = Callable[..., Path]


def test_what_is_put_is_got_and_kept_once(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path / "run" / "blobs")
    sha = blobs.put(b"picture")
    assert blobs.put(b"picture") == sha and blobs.get(sha) == b"picture"
    assert [p.relative_to(blobs.root) for p in blobs.root.rglob("*") if p.is_file()] == [Path(sha[:2], sha)]
    assert blobs.path(sha).stat().st_mode & 0o777 == 0o644


def test_many_threads_put_the_same_blob(tmp_path: Path) -> None:
    blobs, found = Blobs(tmp_path), list[str]()
    threads = [threading.Thread(target=lambda: found.append(blobs.put(b"x" * 100_000))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len(set(found)) == 1 and len(list(tmp_path.rglob("*"))) == 2


def test_a_missing_or_changed_blob_is_named(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    sha = blobs.put(b"picture")
    blobs.path(sha).write_bytes(b"PICTURE")
    with pytest.raises(DataError, match=f"{sha} is damaged"):
        blobs.get(sha)
    blobs.path(sha).write_bytes(b"")  # as a power cut leaves it: the next put mends it
    assert blobs.put(b"picture") == sha and blobs.get(sha) == b"picture"
    blobs.path(sha).unlink()
    with pytest.raises(DataError, match=f"{sha} is missing"):
        blobs.get(sha)


@pytest.mark.parametrize("name", ["", "../../etc/passwd", "AB" * 32, "ab" * 31, "ab" * 32 + "\n", "/" * 64])
def test_a_name_from_a_record_never_leaves_the_store(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match="no name of a blob"):
        Blobs(tmp_path).get(name)


def test_a_disk_that_refuses_is_told(tmp_path: Path) -> None:
    (tmp_path / "blobs").write_text("a file, not a folder")
    with pytest.raises(RunError, match="cannot be written"):
        Blobs(tmp_path / "blobs").put(b"picture")


def seen(make: Make, *images: str) -> Trajectory:
    made = make()
    first = msgspec.structs.replace(made.messages[1], images=images)
    return msgspec.structs.replace(made, messages=(made.messages[0], first, *made.messages[2:]))


def test_verify_finds_the_blobs_of_the_run_and_names_what_is_wrong(make: Make, write: Write, tmp_path: Path) -> None:
    blobs = Blobs(tmp_path / "blobs")
    good, bad = blobs.put(b"good"), blobs.put(b"bad")
    folder = tmp_path / "distill"
    folder.mkdir()
    file = write(seen(make, good, bad)).rename(folder / "trajectories.jsonl.zst")
    assert verify(file).ok
    blobs.path(bad).write_bytes(b"BAD")
    missing = "0" * 64
    file = write(seen(make, good, bad, missing, "../x")).rename(file)
    assert [(p.field, p.code) for p in verify(file).problems] == [
        ("messages[1].images[1]", "blob_damaged"),
        ("messages[1].images[2]", "blob_missing"),
        ("messages[1].images[3]", "blob_name"),
    ]


def test_images_are_read_back_and_records_without_are_as_they_were(make: Make, write: Write) -> None:
    assert b"images" not in msgspec.json.encode(Message("user", "x")) and SCHEMA == 1
    with_one = seen(make, "ab" * 32)
    assert list(read(write(make(1), with_one))) == [make(1), with_one]
    assert "[image abababababab]" in render(with_one)
