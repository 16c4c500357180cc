"""The spawner's small parts, each by itself."""

import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchard_cli.env.agent.loop import Loop
from orchard_cli.env.agent.output import Keep
from orchard_cli.env.local.spawner import cgroups, changes
from orchard_cli.env.local.spawner.cgroups import Cgroups, Group, Hierarchy
from orchard_cli.env.local.spawner.copy import copy_tree
from orchard_cli.env.local.spawner.roots import Escaped, point
from orchard_cli.env.local.spawner.wire import Frames, pack


@given(pieces=st.lists(st.binary(max_size=30), max_size=20), cap=st.integers(0, 60))
def test_kept_output_is_head_and_tail_of_all(pieces: list[bytes], cap: int) -> None:
    keep = Keep(cap)
    for piece in pieces:
        keep.add(piece)
    full, half = b"".join(pieces), (cap + 1) // 2
    expected = full if len(full) <= cap else full[:half] + full[len(full) - (cap - half) :]
    assert (keep.value(), keep.seen) == (expected, len(full))


def test_tail_stays_small_whatever_comes() -> None:
    keep = Keep(10)
    for _ in range(100):
        keep.add(b"x" * 65536)
    assert len(keep._tail) < 4 * 65536 and keep.seen == 100 * 65536


@given(
    messages=st.lists(st.tuples(st.dictionaries(st.text(), st.text()), st.binary(max_size=50)), max_size=5),
    size=st.integers(1, 40),
)
def test_messages_survive_any_cutting(messages: list[tuple[dict[str, str], bytes]], size: int) -> None:
    stream = b"".join(pack(header, body) for header, body in messages)
    frames, seen = Frames(), []
    for start in range(0, len(stream), size):
        seen += frames.feed(stream[start : start + size])
    assert seen == messages


def test_names_that_are_not_utf8_cross_the_wire() -> None:
    name = os.fsdecode(b"\xff")
    assert Frames().feed(pack({"name": name})) == [({"name": name}, b"")]


def test_loop_calls_in_order_and_forgets_what_was_called_off() -> None:
    loop, seen = Loop(), []
    loop.after(0.02, lambda: (seen.append("late"), loop.stop()))  # type: ignore[func-returns-value]
    loop.after(0.01, lambda: seen.append("early"))
    loop.after(0.0, lambda: seen.append("never")).cancel()
    a, b = socket.socketpair()
    b.send(b"x")
    loop.watch(a.fileno(), lambda: (seen.append("read"), loop.unwatch(a.fileno())))  # type: ignore[func-returns-value]
    loop.run()
    assert seen == ["read", "early", "late"]
    a.close()
    b.close()


@given(path=st.binary(min_size=1, max_size=20).filter(lambda name: b"\0" not in name))
def test_quoted_paths_are_one_line_of_plain_text(path: bytes) -> None:
    quoted = changes.quoted(path)
    assert quoted.isascii() and b"\n" not in quoted
    assert quoted[1:-1].decode("unicode_escape").encode("latin-1") == path


def test_mount_point_is_found_without_following(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (root / "link").symlink_to(outside)
    (root / "file").write_text("")
    os.close(point(str(root), "/new/deep"))
    os.close(point(str(root), "/new/file", file=True))
    assert (root / "new/deep").is_dir() and (root / "new/file").is_file()
    for bad in ("/link", "/link/x", "/file", "/file/x", "/new/../x"):
        with pytest.raises(Escaped):
            point(str(root), bad)
    assert list(outside.iterdir()) == []


def test_copy_follows_nothing(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "d").mkdir(parents=True)
    target.mkdir()
    (tmp_path / "secret").write_text("s")
    (source / "link").symlink_to(tmp_path / "secret")
    (source / "d" / "f").write_text("f")
    os.link(source / "d" / "f", source / "hard")
    os.mkfifo(source / "pipe")
    handles = [os.open(folder, os.O_RDONLY) for folder in (source, target)]
    copy_tree(*handles)
    for handle in handles:
        os.close(handle)
    assert (target / "link").is_symlink() and (target / "pipe").is_fifo()
    assert (target / "hard").samefile(target / "d" / "f")


@pytest.fixture
def second_version(tmp_path: Path) -> Group:
    """A cgroup of version 2 made of plain files: what we write and how we read."""
    for name in ("memory.max", "memory.swap.max", "pids.max", "cpu.max", "cgroup.freeze", "cgroup.procs"):
        (tmp_path / name).write_text("")
    (tmp_path / "memory.events").write_text("low 0\nhigh 0\nmax 9\noom 3\noom_kill 2\noom_group_kill 0\n")
    (tmp_path / "memory.current").write_text("4096\n")
    (tmp_path / "memory.stat").write_text("anon 1024\nfile 3072\n")
    (tmp_path / "pids.events").write_text("max 5\n")
    (tmp_path / "pids.current").write_text("3\n")
    return Group([(Hierarchy(2, tmp_path, frozenset(("memory", "pids", "cpu")), tmp_path), tmp_path)])


def test_second_version_is_written_and_read(second_version: Group, tmp_path: Path) -> None:
    second_version.limit(1 << 20, 7, 1.5)
    written = {name: (tmp_path / name).read_text() for name in ("memory.max", "memory.swap.max", "pids.max", "cpu.max")}
    assert written == {"memory.max": "1048576", "memory.swap.max": "0", "pids.max": "7", "cpu.max": "150000 100000"}
    counters = {name: second_version.counter(name) for name in cgroups.NAMES}
    assert counters == {"oom": 2, "charged": 4096, "processes": 1024, "refused": 5, "tasks": 3}
    second_version.hold()
    second_version.freeze(True)
    assert (tmp_path / "cgroup.freeze").read_text() == "1"
    second_version.leave()
    assert (tmp_path / "cgroup.procs").read_text() == "0"
    second_version.folders.clear()
    assert second_version.remove()


def test_tasks_of_a_group_are_known_only_where_the_kernel_counts_them(second_version: Group, tmp_path: Path) -> None:
    assert second_version.tasks() == 3
    (tmp_path / "pids.current").write_text("0\n")
    assert second_version.tasks() == 0
    assert Group().tasks() == -1
    assert Group([(Hierarchy(2, tmp_path / "gone", frozenset(("pids",))), tmp_path / "gone")]).tasks() == -1


def test_second_version_is_set_up_below_a_parent_that_delegates(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids\n")
    found = Cgroups.__new__(Cgroups)
    found.name, found.hierarchies = "mine", []
    assert found._add_v2(tmp_path, tmp_path)
    assert found.versions() == {"cpu": 2, "memory": 2, "pids": 2}
    for folder in (tmp_path, tmp_path / "mine"):
        assert (folder / "cgroup.subtree_control").read_text() == "+memory +pids +cpu"


def test_machine_without_cgroups_has_none(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("hugetlb\n")
    found = Cgroups.__new__(Cgroups)
    found.name, found.hierarchies = "mine", []
    assert not found._add_v2(tmp_path, tmp_path) and found.versions() == {}
    empty = found.group("x", cpu=True)
    assert empty.counter("oom") == 0 and not empty.counts("memory") and empty.remove()
