"""Whose a process is, also at the moment at which it becomes another program and bears nothing."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orchard_cli.env.agent.members import VARIABLE, Members, by_variable


@contextmanager
def proc(root: Path, **files: str) -> Iterator[tuple[Members, Path]]:
    """A /proc with one process, the number 7."""
    place = root / "7"
    place.mkdir()
    for name, text in {"environ": "", "cmdline": "", "stat": "7 (a) b) S 1 7 7 0 -1 0", **files}.items():
        (place / name).write_text(text)
    handle = os.open(root, os.O_RDONLY)
    try:
        yield Members(handle, by_variable), place
    finally:
        os.close(handle)


def test_it_is_found_by_what_it_inherited(tmp_path: Path) -> None:
    with proc(tmp_path, environ=f"A=b\0{VARIABLE}=12\0", cmdline="x") as (members, _):
        assert (members.pids(12), members.pids(1)) == ((7,), ())


def test_one_that_is_becoming_another_program_is_waited_for(tmp_path: Path) -> None:
    def becomes(place: Path) -> None:
        time.sleep(0.01)
        (place / "environ").write_text(f"{VARIABLE}=12\0")
        (place / "cmdline").write_text("sleep\0")

    with proc(tmp_path) as (members, place):
        thread = threading.Thread(target=becomes, args=(place,))
        thread.start()
        assert members.pids(12) == (7,)
        thread.join()


def test_the_dead_and_those_without_an_environment_are_nobodys(tmp_path: Path) -> None:
    for number, files in enumerate(({"stat": "7 (a) b) Z 1 7 7 0 -1 0"}, {"cmdline": "x"})):
        root = tmp_path / str(number)
        root.mkdir()
        with proc(root, **files) as (members, _):
            assert members.pids(12) == ()


def test_nobody_waits_for_a_thread_of_the_kernel(tmp_path: Path) -> None:
    """Before Linux 6.16 its environment can be read, and is empty."""
    with proc(tmp_path, stat="7 (kthreadd) S 0 0 0 0 -1 2129984 0") as (members, _):
        began = time.monotonic()
        assert members.pids(12) == ()
        assert time.monotonic() - began < 0.04
