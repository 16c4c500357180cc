"""Files and directories through a real agent."""

import hashlib
import io
import json
import os
import shutil
import socket
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchard_cli.env.agent.trees import LEFT_OUT
from orchard_cli.errors import SandboxError

from .conftest import TOKEN, Place
from .test_commands import fault_of


def ask(place: Place, method: str, what: str, body: bytes = b"", **query: object) -> object:
    return place.channel.ask(method, f"/v1/{what}", body, query=query).record()


def test_octets_go_up_and_come_down(place: Place) -> None:
    data = os.urandom(3_000_000)
    assert ask(place, "PUT", "files", data, path="deep/er/f", mode="750") == {"bytes": len(data)}
    assert place.channel.ask("GET", "/v1/files", query={"path": "deep/er/f"}).body == data
    part = place.channel.ask("GET", "/v1/files", query={"path": "deep/er/f", "offset": 1000, "limit": 10})
    assert (part.body, part.headers["x-size"], part.headers["x-mode"]) == (data[1000:1010], "3000000", "750")


def test_gigabytes_pass_through_in_constant_memory(place: Place) -> None:
    """96 MiB here: many times what the agent may hold."""
    block = os.urandom(1 << 20)
    pids: list[int] = []

    def pieces() -> Iterator[bytes]:
        for number in range(96):
            if number == 90:
                pids.extend(_peaks(place.process.pid))
            yield block

    place.channel.upload("/v1/files", pieces(), query={"path": "large"})
    assert max(pids) < 40_000  # KiB at most that any process of the agent has held
    digest = hashlib.sha256()
    with place.channel.stream("GET", "/v1/files", query={"path": "large"}) as (headers, body):
        for piece in body:
            digest.update(piece)
    assert headers["content-length"] == str(96 << 20)
    assert digest.digest() == hashlib.sha256(block * 96).digest()
    place.channel.ask("DELETE", "/v1/files", query={"path": "large"})


def _peaks(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    found = [Path(f"/proc/{one}/status").read_text() for one in (str(pid), *children)]
    return [int(line.split()[1]) for text in found for line in text.splitlines() if line.startswith("VmHWM")]


def test_file_without_a_size_is_read_to_its_end(place: Place) -> None:
    assert b"Name:" in place.channel.ask("GET", "/v1/files", query={"path": "/proc/self/status"}).body


def test_listing_takes_odd_names_dangling_links_and_pages(place: Place) -> None:
    odd = os.fsdecode(b"\xff\n")
    folder = place.workdir / "odd"
    folder.mkdir()
    (folder / odd).write_text("x")
    (folder / "dangling").symlink_to("/no/such")
    os.mkfifo(folder / "pipe")
    (folder / "sub").mkdir()
    rows = ask(place, "GET", "list", path="odd")
    assert [row[:2] for row in rows] == [  # type: ignore[attr-defined]
        ["dangling", "link"],
        ["pipe", "other"],
        ["sub", "directory"],
        [odd, "file"],
    ]
    page = ask(place, "GET", "list", path="odd", after="dangling", limit=2)
    assert [row[0] for row in page] == ["pipe", "sub"]
    assert ask(place, "GET", "stat", path="odd/dangling")["target"] == "/no/such"  # type: ignore[index]


def test_made_moved_removed(place: Place) -> None:
    ask(place, "POST", "mkdir", path="m/n")
    ask(place, "PUT", "files", b"x", path="m/n/f")
    ask(place, "POST", "move", path="m/n/f", to="m/g")
    assert fault_of(ask, place, "DELETE", "files", path="m")[0] == "client.file_error"
    ask(place, "DELETE", "files", path="m", recursive=1)
    assert fault_of(ask, place, "GET", "stat", path="m")[0] == "client.no_such_file"


def test_directory_goes_and_comes_as_a_tar(place: Place) -> None:
    source = place.workdir / "source"
    (source / "d").mkdir(parents=True)
    (source / "d" / "f").write_bytes(b"data" * 1000)
    (source / "d" / "f").chmod(0o750)
    (source / "link").symlink_to("d/f")
    data = place.channel.ask("GET", "/v1/tar", query={"path": "source"}).body
    told = ask(place, "PUT", "tar", data, path="copy")
    assert told == {"entries": 3, "bytes": 4000}
    copy = place.workdir / "copy"
    assert (copy / "d" / "f").read_bytes() == b"data" * 1000 and (copy / "link").readlink() == Path("d/f")
    assert (copy / "d" / "f").stat().st_mode & 0o777 == 0o750


def tar_of(*members: tuple[str, str, bytes]) -> bytes:
    """(name, link target or kind, data)"""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for name, kind, data in members:
            member = tarfile.TarInfo(name)
            if kind == "device":
                member.type, member.devmajor = tarfile.CHRTYPE, 1
            elif kind.startswith("hard:"):
                member.type, member.linkname = tarfile.LNKTYPE, kind[5:]
            elif kind:
                member.type, member.linkname = tarfile.SYMTYPE, kind
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return file.getvalue()


@pytest.mark.parametrize(
    "members",
    [
        (("../evil", "", b"x"),),
        (("/evil", "", b"x"), ("../../evil", "", b"x")),
        (("out", "../..", b""), ("out/evil", "", b"x")),
        (("out", "/tmp", b""), ("out/evil", "", b"x")),
        (("out", "/tmp", b""), ("hard", "hard:out", b"")),
        (("d", "device", b""),),
        (("hard", "hard:../../secret", b""),),
    ],
)
def test_hostile_archives_stay_below(place: Place, members: tuple[tuple[str, str, bytes], ...]) -> None:
    (place.workdir.parent / "secret").write_text("s")
    with pytest.raises(SandboxError) as caught:
        ask(place, "PUT", "tar", tar_of(*members), path="into/here")
    assert caught.value.fault.code == "client.bad_archive"
    assert not (place.workdir / "evil").exists() and not (place.workdir.parent / "evil").exists()
    assert not Path("/tmp/evil").exists()


def test_links_may_point_anywhere_and_nothing_goes_through_them(place: Place) -> None:
    """As those of any `venv` do; whoever follows one is inside the sandbox."""
    outside = place.workdir.parent / "target"
    outside.write_text("untouched")
    links = tar_of(("python", "/usr/bin/python3", b""), ("up", "../../..", b""), ("file", str(outside), b""))
    ask(place, "PUT", "tar", links, path="venv")
    assert (place.workdir / "venv/python").readlink() == Path("/usr/bin/python3")
    assert (place.workdir / "venv/up").readlink() == Path("../../..")
    ask(place, "PUT", "tar", tar_of(("file", "", b"new")), path="venv")
    assert outside.read_text() == "untouched" and not (place.workdir / "venv/file").is_symlink()
    assert fault_of(ask, place, "PUT", "tar", tar_of(("up/f", "", b"x")), path="venv")[0] == "client.bad_archive"
    folder = tarfile.TarInfo("up")
    folder.type = tarfile.DIRTYPE
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        tar.addfile(folder)
    assert fault_of(ask, place, "PUT", "tar", data.getvalue(), path="venv")[0] == "client.bad_archive"


def test_planted_link_does_not_lead_an_archive_outside(place: Place) -> None:
    outside = place.workdir.parent / "outside"
    outside.mkdir()
    (place.workdir / "planted").mkdir()
    (place.workdir / "planted" / "d").symlink_to(outside)
    assert fault_of(ask, place, "PUT", "tar", tar_of(("d/f", "", b"x")), path="planted")[0] == "client.bad_archive"
    assert list(outside.iterdir()) == []


def test_link_beyond_the_longest_path_does_not_lead_outside(place: Place) -> None:
    """Where `realpath` gives up, the rest of a path looks like plain names."""
    members, here, name = [], "", "d" * 247
    for step in "abcdefghijklmnop":
        members += [(f"{here}{name}/.keep", "", b""), (f"{here}{step}", name, b"")]
        here += f"{name}/"
    short = "/".join("abcdefghijklmnop")
    members += [(f"{short}/{'l' * 254}", "../" * 16, b""), ("out", f"{short}/{'l' * 254}/../..", b"")]
    members += [("out/beyond", "", b"x")]  # the link may be made; nothing is written through it
    assert fault_of(ask, place, "PUT", "tar", tar_of(*members), path="far/away")[0] == "client.bad_archive"
    assert not list(place.workdir.parent.rglob("beyond"))


def test_what_is_there_is_replaced_and_nobody_else_may_write(place: Place) -> None:
    there = place.workdir / "there"
    there.mkdir()
    (there / "link").symlink_to("file")
    (there / "file").write_text("old")
    ask(place, "PUT", "tar", tar_of(("file", "", b"new"), ("link", "other", b""), ("private/f", "", b"")), path="there")
    assert (there / "file").read_text() == "new" and (there / "link").readlink() == Path("other")
    member = tarfile.TarInfo("private")
    member.type, member.mode = tarfile.DIRTYPE, 0o2770
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        tar.addfile(member)
    ask(place, "PUT", "tar", data.getvalue(), path="there")
    assert (there / "private").stat().st_mode & 0o7777 == 0o750


def test_archive_bombs_are_bounded(place: Place) -> None:
    many = tar_of(*[(f"f{number}", "", b"") for number in range(30)])
    assert fault_of(ask, place, "PUT", "tar", many, path="bomb", entries=10)[0] == "client.too_large"
    large = tar_of(("f", "", b"x" * 100_000))
    assert fault_of(ask, place, "PUT", "tar", large, path="bomb", most=50_000)[0] == "client.too_large"
    assert fault_of(ask, place, "PUT", "tar", b"no archive" * 100, path="bomb")[0] == "client.bad_archive"
    assert place.channel.ask("GET", "/v1/health").status == 200


@pytest.fixture
def log(place: Place) -> Iterator[Path]:
    """A large file, alone in its directory."""
    log = place.workdir / "shrinking" / "log"
    log.parent.mkdir()
    log.write_bytes(b"x" * (64 << 20))
    yield log
    shutil.rmtree(log.parent)


def test_what_shrinks_while_it_is_read_is_no_lost_agent(place: Place, log: Path) -> None:
    pieces = place.channel.download("/v1/files", query={"path": str(log)})
    next(pieces)
    os.truncate(log, 10)
    assert fault_of(list, pieces) == ("client.file_changed", "client")


def test_what_shrinks_in_a_directory_ends_in_zeros_and_is_named(place: Place, log: Path) -> None:
    pieces = place.channel.download("/v1/tar", query={"path": str(log.parent)})
    first = next(pieces)
    os.truncate(log, 10)
    with tarfile.open(fileobj=io.BytesIO(first + b"".join(pieces))) as tar:
        member = tar.extractfile("log")
        assert member is not None
        data = member.read()
        said = json.loads(tar.pax_headers[LEFT_OUT])
    assert len(data) == 64 << 20 and data[:1] == b"x" and data[-1:] == b"\0"
    assert (said["cut"], said["names"]) == (1, [["cut", "log"]])


def _odd(name: str, **pax: str) -> bytes:
    member = tarfile.TarInfo(name)
    member.pax_headers = pax
    return member.tobuf(tarfile.PAX_FORMAT) + bytes(1024)


def _names_of_names(count: int) -> bytes:
    member = tarfile.TarInfo("././@LongLink")
    member.type, member.size = tarfile.GNUTYPE_LONGNAME, 2
    return (member.tobuf(tarfile.GNU_FORMAT) + b"a".ljust(512, b"\0")) * count + bytes(1024)


@pytest.mark.parametrize(
    "archive",
    [
        tar_of(("hard", "hard:nowhere", b"")),
        _odd("late", mtime="1e30"),
        _odd("never", mtime="nan"),
        _names_of_names(2000),
    ],
    ids=["link to nothing", "beyond all time", "no time", "names without end"],
)
def test_an_archive_that_makes_no_sense_is_its_sender_s_doing(place: Place, archive: bytes) -> None:
    assert fault_of(ask, place, "PUT", "tar", archive, path="odd") == ("client.bad_archive", "client")


def test_interrupted_upload_leaves_nothing(place: Place) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(place.address)
        head = f"PUT /v1/files?path=half HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 1000\r\n\r\n"
        sock.sendall(head.encode() + b"x" * 500)
        sock.shutdown(socket.SHUT_WR)
        assert sock.recv(100) == b""
    assert [path for path in place.workdir.iterdir() if "half" in path.name or "orchard" in path.name] == []


def test_transfer_of_many_at_once_does_not_wait_for_the_slow_one(place: Place) -> None:
    gate, results = threading.Event(), []

    def slow() -> Iterator[bytes]:
        yield b"a"
        gate.wait(10)
        yield b"b"

    uploading = threading.Thread(
        target=lambda: results.append(place.channel.upload("/v1/files", slow(), query={"path": "slow"}).record())
    )
    uploading.start()
    ask(place, "PUT", "files", b"fast", path="fast")
    gate.set()
    uploading.join(10)
    assert results == [{"bytes": 2}] and (place.workdir / "slow").read_bytes() == b"ab"


def test_port_inside_is_reached_through_the_agent(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with place.channel.upgrade(f"/v1/ports/{port}", query={}, wait_s=10) as near:
            far, _ = server.accept()
            with far:
                near.sendall(b"question")
                assert far.recv(100) == b"question"
                far.sendall(b"answer")
                assert near.recv(100) == b"answer"
                near.shutdown(socket.SHUT_WR)
                assert far.recv(100) == b""
    assert fault_of(place.channel.upgrade, f"/v1/ports/{port}", query={}, wait_s=10) == ("connect_refused", "unknown")


def test_a_name_with_a_nul_is_refused(place: Place) -> None:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.PAX_FORMAT) as tar:
        member = tarfile.TarInfo("x")
        member.pax_headers = {"path": "a\0b"}
        tar.addfile(member)
    assert fault_of(ask, place, "PUT", "tar", data.getvalue(), path="nul")[0] == "client.bad_archive"
