"""Directories up and down, whole, and what must not get through."""

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchard_cli.env.agent.trees import LEFT_OUT
from orchard_cli.env.local.local import LocalEnv
from orchard_cli.env.remote import RemoteEnv
from orchard_cli.env.remote.packed import fetch_folder, send_folder
from orchard_cli.env.sandbox import Env, Spec
from orchard_cli.errors import OrchardError, SandboxError

from ..service.conftest import Rest


@pytest.fixture(params=["local", "remote"])
def place(request: pytest.FixtureRequest, env: LocalEnv, rest: Rest) -> Iterator[Env]:
    if request.param == "local":
        yield env
        return
    with RemoteEnv(rest.url, rest.key) as remote:
        yield remote


def test_a_folder_goes_there_and_comes_back(place: Env, tmp_path: Path) -> None:
    here = tmp_path / "here"
    (here / "deep" / "empty").mkdir(parents=True)
    (here / "big").write_bytes(bytes(3_000_000) + b"end")
    (here / "deep" / "run").write_text("#!/bin/sh\n")
    (here / "deep" / "run").chmod(0o755)
    (here / "link").symlink_to("deep/run")
    with place.open(Spec()) as box:
        assert send_folder(box, here, "there/it") > 3_000_000
        assert box.exec("stat -c %a there/it/deep/run; readlink there/it/link; tail -c 3 there/it/big").stdout == (
            b"755\ndeep/run\nend"
        )
        back = tmp_path / "back"
        assert fetch_folder(box, "there/it", back) == 3_000_013
    assert (back / "big").read_bytes() == (here / "big").read_bytes()
    assert (back / "deep" / "empty").is_dir() and (back / "link").readlink() == Path("deep/run")
    assert (back / "deep" / "run").stat().st_mode & 0o777 == 0o755


def test_what_is_no_folder_is_said_to_be_none(place: Env, tmp_path: Path) -> None:
    with place.open(Spec()) as box:
        box.write("file", b"x")
        for path in ("file", "none"):
            with pytest.raises(SandboxError) as caught:
                list(box.pack(path))
            assert caught.value.fault.attributable == "client"
        with pytest.raises(OrchardError, match="there already"):
            fetch_folder(box, ".", tmp_path)


def tar(*members: tuple[str, bytes, str]) -> bytes:
    """(name, type, link target)"""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, kind, target in members:
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.size = kind, target, 4 if kind == tarfile.REGTYPE else 0
            archive.addfile(member, io.BytesIO(b"evil"))
    return file.getvalue()


HOSTILE = {
    "a way up": tar(("../out", tarfile.REGTYPE, "")),
    "through a link": tar(("l", tarfile.SYMTYPE, "/tmp"), ("l/out", tarfile.REGTYPE, "")),
    "a hard link to outside": tar(("l", tarfile.LNKTYPE, "../../etc/passwd")),
    "a device": tar(("d", tarfile.CHRTYPE, "")),
    "no tar": b"x" * 2048,
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_archives_write_nothing_outside(place: Env, data: bytes) -> None:
    with place.open(Spec()) as box:
        with pytest.raises(SandboxError) as caught:
            box.unpack("below", [data])
        assert caught.value.fault.code == "client.bad_archive"
        assert not box.exec("ls out /tmp/out").stdout


class Lying:
    """A sandbox that answers with an archive of its own."""

    def __init__(self, data: bytes):
        self._data = data

    def pack(self, path: str) -> Iterator[bytes]:
        yield self._data


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_archives_write_nothing_here(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(OrchardError):
        fetch_folder(Lying(data), ".", tmp_path / "target")  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.iterdir()] == ["target"] and not Path("/tmp/out").exists()


@pytest.mark.parametrize(
    "said",
    [
        "{",
        "[]",
        "7",
        '{"closed": "many", "names": []}',
        '{"closed": 1, "names": [["why", "a"]]}',
        "[" * 100_000,
    ],
)
def test_nonsense_about_what_is_left_out_is_refused(tmp_path: Path, said: str) -> None:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT, pax_headers={LEFT_OUT: said}) as archive:
        archive.addfile(tarfile.TarInfo("a"), io.BytesIO())
    with pytest.raises(OrchardError, match="makes no sense"):
        fetch_folder(Lying(file.getvalue()), ".", tmp_path / "target")  # type: ignore[arg-type]
