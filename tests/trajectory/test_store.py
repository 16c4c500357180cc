"""The store keeps what it was given, loses at most what a crash cut, and never writes over damage."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from orchard_cli.errors import DataError, RunError
from orchard_cli.outcome import Outcome
from orchard_cli.trajectory import Key, Message, Problem, Store, Tail, ToolCall, Trajectory, find, keys, read
from orchard_cli.trajectory.scan import Line, lines

Make = Callable[..., Trajectory]
Write = Callable[..., Path]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "trajectories.jsonl.zst"


@pytest.mark.parametrize("fsync", [False, True])
def test_what_is_appended_reads_back_also_after_reopening(make: Make, path: Path, fsync: bool) -> None:
    written = [make(n) for n in range(4)]
    for half in (written[:2], written[2:]):
        with Store(path, fsync=fsync) as store:
            for trajectory in half:
                store.append(trajectory)
        assert store.torn == Tail()
    assert list(read(path)) == written


def test_the_schema_is_on_every_line(make: Make, path: Path) -> None:
    with Store(path) as store:
        store.append(make())
    (line,) = lines(path)
    assert isinstance(line, Line) and msgspec.json.decode(line.data)["schema"] == 1


def test_threads_append_without_mixing(make: Make, path: Path) -> None:
    with Store(path) as store:

        def work(first: int) -> None:
            for number in range(first, first + 25):
                store.append(make(number))

        threads = [threading.Thread(target=work, args=(25 * n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(t.id for t in read(path)) == sorted(f"t{n}" for n in range(200))


def test_two_stores_append_to_one_file(make: Make, path: Path) -> None:
    with Store(path) as one, Store(path) as two:
        for number in range(6):
            (one, two)[number % 2].append(make(number))
    assert [t.id for t in read(path)] == [f"t{n}" for n in range(6)]


def test_a_store_cuts_what_another_writer_left_half_done(make: Make, path: Path) -> None:
    with Store(path) as store:
        store.append(make(0))
        whole = path.read_bytes()
        with path.open("ab") as dying:
            dying.write(whole[:50])
        store.append(make(1))
        assert store.torn == Tail(50, 1)
    assert [t.id for t in read(path)] == ["t0", "t1"]


def test_a_torn_tail_is_counted_and_cut(make: Make, write: Write) -> None:
    path = write(make(0), make(1))
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:70])
    with Store(path) as store:
        assert store.torn == Tail(70, 1)
    assert path.read_bytes() == whole


@pytest.mark.parametrize("tail", [b"\0" * 500, b"\x28\xb5", b"\x28\xb5\x2f\xfd\xff\xff", b"not a frame"])
def test_a_tail_that_is_no_frame_is_cut(make: Make, write: Write, tail: bytes) -> None:
    path = write(make(0))
    whole = path.read_bytes()
    path.write_bytes(whole + tail)
    with Store(path) as store:
        assert store.torn == Tail(len(tail), 1)
    assert path.read_bytes() == whole


def test_a_last_frame_with_a_wrong_checksum_is_cut_when_appending_but_named_when_reading(
    make: Make, write: Write
) -> None:
    path = write(make(0), make(1))
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(DataError, match="bad_frame"):
        list(read(path))
    with Store(path) as store:
        assert store.torn.records == 1
    assert [t.id for t in read(path)] == ["t0"]


def test_damage_in_the_middle_is_never_cut(make: Make, write: Write) -> None:
    first = len(write(make(0)).read_bytes())
    path = write(make(0), make(1), make(2))
    whole = bytearray(path.read_bytes())
    whole[first + 60] ^= 0xFF
    path.write_bytes(whole)
    for doing in (lambda: Store(path), lambda: list(read(path)), lambda: keys(path)):
        with pytest.raises(DataError) as caught:
            doing()
        assert f"{path}:2 (byte {first})" in str(caught.value)
        assert "orchard traj verify" in caught.value.hint
    assert path.read_bytes() == whole


def test_a_file_of_something_else_is_left_alone(tmp_path: Path, make: Make) -> None:
    path = tmp_path / "notes.jsonl.zst"
    path.write_bytes(b"my only copy of something\n")
    for doing in (lambda: Store(path), lambda: list(read(path))):
        with pytest.raises(DataError, match="does not begin with a zstd frame"):
            doing()
    assert path.read_bytes() == b"my only copy of something\n"


def test_a_reader_reads_while_another_process_appends(make: Make, path: Path) -> None:
    line = msgspec.json.encode(make(1))
    writer = (
        "import sys; from orchard_cli.trajectory import *; import msgspec\n"
        "t = msgspec.json.decode(sys.stdin.buffer.read(), type=Trajectory)\n"
        "with Store(sys.argv[1]) as store:\n"
        "    for n in range(300): store.append(msgspec.structs.replace(t, id=f't{n}'))\n"
    )
    with Store(path) as store:
        store.append(make(0))
    process = subprocess.Popen([sys.executable, "-c", writer, str(path)], stdin=subprocess.PIPE)
    assert process.stdin
    process.stdin.write(line)
    process.stdin.close()
    seen = []
    while process.poll() is None:
        seen.append([t.id for t in read(path)])
    assert process.returncode == 0
    final = [t.id for t in read(path)]
    assert len(final) == 301
    assert all(ids == final[: len(ids)] for ids in seen)


def test_reading_names_a_torn_tail_only_to_who_asks(make: Make, write: Write) -> None:
    path = write(make(0), make(1))
    path.write_bytes(path.read_bytes()[:-5])
    told: list[Problem] = []
    assert [t.id for t in read(path, torn=told.append)] == ["t0"]
    assert [(p.line, p.code) for p in told] == [(2, "torn_tail")]
    assert [t.id for t in read(path)] == ["t0"]


def test_missing_empty_and_torn_only_files_are_told_apart(make: Make, write: Write, tmp_path: Path) -> None:
    path = write(make(0))
    torn = path.read_bytes()[:30]
    for content, message in ((None, "is not there"), (b"", "is empty"), (torn, "holds no whole trajectory")):
        path.unlink(missing_ok=True)
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(DataError, match=message) as caught:
            list(read(path))
        assert caught.value.hint
        assert keys(path) == {}
    with pytest.raises(DataError, match="is not a file"):
        list(read(tmp_path))


def test_a_newer_schema_is_refused_by_name(make: Make, write: Write) -> None:
    newer = {**msgspec.to_builtins(make(1)), "schema": 2, "mood": "good"}
    path = write(make(0), newer)
    for doing in (lambda: list(read(path)), lambda: keys(path)):
        with pytest.raises(DataError, match=r":2 .*schema: written by a newer orchard: record schema 2") as caught:
            doing()
        assert caught.value.hint == "upgrade: pip install -U orchard-cli"


def test_plain_json_lines_and_frames_of_many_lines_are_read_too(make: Make, tmp_path: Path, frame: Callable) -> None:
    lines = [msgspec.json.encode(make(n)) for n in range(3)]
    plain, packed = tmp_path / "a.jsonl", tmp_path / "b.jsonl.zst"
    plain.write_bytes(b"\n".join(lines))
    packed.write_bytes(frame(b"\n".join(lines)) + frame(lines[0]))
    assert [t.id for t in read(plain)] == ["t0", "t1", "t2"]
    assert [t.id for t in read(packed)] == ["t0", "t1", "t2", "t0"]
    plain.write_bytes(b"\n".join(lines)[:-9])
    assert [t.id for t in read(plain)] == ["t0", "t1"]


def test_keys_prefer_an_outcome_that_counts(make: Make, path: Path) -> None:
    broken = {"outcome": Outcome.INFRA_ERROR, "reward": None}
    with Store(path) as store:
        for trajectory in (make(0, **broken), make(0), make(0, **broken), make(1, attempt=3, **broken)):
            store.append(trajectory)
    assert keys(path) == {
        Key.of(make(0)): Outcome.SOLVED,
        Key("task1", 3, "train", "distill", "tiny", 0): Outcome.INFRA_ERROR,
    }


def test_find_takes_an_id_its_beginning_or_a_line(make: Make, write: Write) -> None:
    path = write(make(10), make(11), make(2))
    assert [find(path, name).id for name in ("t10", "t2", "#2")] == ["t10", "t2", "t11"]
    with pytest.raises(DataError, match="'t1' begins more than one id .*: t10, t11"):
        find(path, "t1")
    with pytest.raises(DataError, match="holds no trajectory 'x'"):
        find(path, "x")


@pytest.mark.parametrize(
    ("hostile", "kept"),
    [("\ud800", "\ufffd"), (10**5000, "[integer too large]"), (float("nan"), None)],
    ids=["surrogate", "integer", "nan"],
)
def test_json_that_a_hostile_reply_holds_cannot_stop_a_run(
    make: Make, path: Path, hostile: object, kept: object
) -> None:
    nest: object = 0
    for _ in range(2000):
        nest = [nest]
    flat, deep = ({"a": hostile}, {"a": hostile, "b": nest})
    messages = [(Message("assistant", tool_calls=(ToolCall("1", "bash", a),)),) for a in (flat, deep)]
    with Store(path) as store:
        for number, message in enumerate(messages):
            store.append(make(number, messages=message))
    for back in read(path):
        assert back.messages[0].tool_calls[0].arguments["a"] == kept
    assert "nested too deep" in str(back.messages[0].tool_calls[0].arguments["b"])


@pytest.mark.parametrize(
    ("change", "field"),
    [({"reward": float("nan")}, "reward"), ({"wall_s": float("inf")}, "wall_s"), ({"attempt": "one"}, "attempt")],
)
def test_a_record_that_would_not_read_back_is_refused(make: Make, path: Path, change: dict, field: str) -> None:
    with Store(path) as store:
        with pytest.raises(RunError, match=f"'t0' cannot be stored: {field}"):
            store.append(make(0, **change))
        store.append(make(1))
    assert [t.id for t in read(path)] == ["t1"]


FULL = """
import resource, sys
from orchard_cli.errors import RunError
from orchard_cli.trajectory import *
import msgspec
t = msgspec.json.decode(sys.stdin.buffer.read(), type=Trajectory)
if sys.argv[2] == "limit":
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))
store = Store(sys.argv[1])
for n in range(200):
    try:
        noise = "".join(chr(33 + (n * i * i) % 90) for i in range(999))
        store.append(msgspec.structs.replace(t, id=f"t{n}", artifact=noise))
    except RunError as error:
        print(n, error, "|", error.hint)
        break
print(len(list(read(sys.argv[1]))), Store(sys.argv[1]).torn.bytes)
"""


def test_a_write_that_stops_half_way_leaves_a_whole_file(make: Make, path: Path) -> None:
    """The kernel takes the first part of a frame and refuses the rest: a file size limit acts as a full disk does."""
    done = _python(FULL, make(0), str(path), "limit")
    stopped, after = done.splitlines()
    number = stopped.split()[0]
    assert "cannot be written: File too large | the file is as large as this system" in stopped
    assert after == f"{number} 0" and int(number) > 0


def test_a_full_disk_is_told_and_leaves_a_whole_file(make: Make, tmp_path: Path) -> None:
    mount = ["unshare", "-rm", "sh", "-c", f'mount -t tmpfs -o size=32k none {tmp_path} && exec "$@"', "sh"]
    if subprocess.run([*mount, "true"], capture_output=True).returncode:
        pytest.skip("no user namespace to mount a small disk in")
    done = _python(FULL, make(0), str(tmp_path / "t.jsonl.zst"), "disk", before=mount)
    stopped, after = done.splitlines()
    number = stopped.split()[0]
    assert "cannot be written: No space left on device | free some space" in stopped
    assert after == f"{number} 0" and int(number) > 0


def test_a_removed_file_and_a_closed_store_are_errors(make: Make, path: Path) -> None:
    with Store(path) as store:
        path.unlink()
        with pytest.raises(RunError, match="was removed"):
            store.append(make())
    with pytest.raises(RunError, match="is closed"):
        store.append(make())


def test_a_place_that_cannot_be_opened_is_an_error_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path, tmp_path / "file" / "t.jsonl.zst"):
        with pytest.raises(RunError, match="cannot be opened") as caught:
            Store(place)
        assert caught.value.hint


def _python(code: str, trajectory: Trajectory, *arguments: str, before: list[str] | None = None) -> str:
    command = [*(before or []), sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, input=msgspec.json.encode(trajectory), capture_output=True, env=os.environ)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()
