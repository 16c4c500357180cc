"""Bytes in and out of a sandbox: megabytes (10⁶) a second, and by how much memory grew meanwhile on our side."""

import os
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ..local.local import LocalEnv
from ..remote.sandbox import RemoteSandbox
from ..sandbox import Limits, Sandbox, Spec
from ..service.bench import served
from .times import Figures, Note, family, sizes

PIECE = 1 << 20
LOOK_S = 0.05


def transfers(mib: int, note: Note) -> dict[str, Figures]:
    """Of `mib` MiB each: as a tar, embedded and over REST, and as a plain file over REST."""
    room = Limits(memory_mb=2 * mib + 1024, disk_mb=2 * mib + 256)
    found: dict[str, Figures] = {}
    note(f"{mib} MiB in and out, embedded …")
    with LocalEnv(limits=room) as env, env.open(Spec(limits=room)) as box:
        _tar(box, "embedded", mib, [os.getpid()], found)
    note(f"{mib} MiB in and out, over REST …")
    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as remote:
        file = Path(folder, "file")
        with file.open("wb") as out:
            for _ in range(mib):
                out.write(os.urandom(PIECE))
        with remote.open(Spec(limits=room)) as box:
            assert isinstance(box, RemoteSandbox)
            us = [os.getpid()]
            _measure(found, "REST: file in", mib, us, lambda: box.upload(file, "file"))
            _measure(found, "REST: file out", mib, us, lambda: box.download("file", Path(folder, "back")))
            if Path(folder, "back").read_bytes()[-PIECE:] != file.read_bytes()[-PIECE:]:
                found["REST: file out"]["failed"] = 1
            box.exec("rm file")
            _tar(box, "REST", mib, us, found)
    return found


def _tar(box: Sandbox, name: str, mib: int, pids: list[int], found: dict[str, Figures]) -> None:
    _measure(found, f"{name}: tar in", mib, pids, lambda: box.unpack("t", _packed(mib)))
    got = _measure(found, f"{name}: tar out", mib, pids, lambda: sum(map(len, box.pack("t"))))
    found[f"{name}: tar out"]["failed"] = int(got < mib * PIECE)


def _packed(mib: int) -> Iterator[bytes]:
    """A tar of one file."""
    info = tarfile.TarInfo("file")
    info.size = mib * PIECE
    yield info.tobuf()
    piece = os.urandom(PIECE)
    for _ in range(mib):
        yield piece
    yield bytes(1024)


def _measure(
    found: dict[str, Figures], name: str, mib: int, pids: Iterable[int], call: Callable[[], int | None]
) -> int:
    with _watched(pids) as grown:
        began = time.perf_counter()
        got = call() or 0
        seconds = time.perf_counter() - began
    found[name] = {"MB/s": mib * PIECE / 1e6 / seconds, "memory +MB": max(grown), "failed": 0}
    return got


@contextmanager
def _watched(pids: Iterable[int]) -> Iterator[list[float]]:
    """By how many MB these processes and all below them grew together, each look; shared pages count once."""
    start, grown, over = _held(pids), [0.0], threading.Event()

    def look() -> None:
        while not over.wait(LOOK_S):
            grown.append(_held(pids) - start)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield grown
    finally:
        over.set()
        thread.join()


def _held(pids: Iterable[int]) -> float:
    total = 0.0
    for pid in family(pids):
        try:
            total += sizes(pid)["pss"]
        except (OSError, KeyError):  # ended meanwhile
            continue
    return total
