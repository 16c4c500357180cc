"""Images without an engine: archives become roots, hostile ones become errors, and sandboxes are opened from them."""

import gzip
import hashlib
import os
import tarfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from orchard_cli.commands.env_session import image_of
from orchard_cli.env.contained.choose import contained
from orchard_cli.env.contained.image import Image, Images
from orchard_cli.env.contained.maker import Maker
from orchard_cli.env.sandbox import Spec
from orchard_cli.env.service.specs import Images as Offered
from orchard_cli.errors import ConfigError, SandboxError

from .images import base_layer, layer, save


def test_a_layer_hides_what_a_lower_one_had(tmp_path: Path) -> None:
    below = layer(("d", None), ("d/a", b"1"), ("d/b", b"2"), ("e", None), ("e/x", b"3"))
    above = layer(("d/.wh.a", b""), ("e/.wh..wh..opq", b""), ("e/y", b"4"))
    save(tmp_path / "image.tar", [below, above], {"PATH": "/opt/bin"})
    image = Images(tmp_path / "images").find(str(tmp_path / "image.tar"))
    assert sorted(str(path.relative_to(image.root)) for path in image.root.rglob("*")) == ["d", "d/b", "e", "e/y"]
    assert image.env == {"PATH": "/opt/bin"}


def test_a_pinned_archive_is_that_one_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "i.tar"
    save(path, [layer(("f", b"1"))], {})
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    image = Images(tmp_path / "images").find(f"{path}@sha256:{digest}")
    assert (image.root / "f").read_bytes() == b"1"
    assert image_of(f"mini={path}@sha256:{digest}", held=True) == ("mini", f"{path}@sha256:{digest}")
    save(path, [layer(("f", b"2"))], {})
    for text in (f"{path}@sha256:{digest}", f"{path}@sha256:", f"{tmp_path}@sha256:{digest}"):
        with pytest.raises(SandboxError, match="not what it should be|no archive"):
            Images(tmp_path / "others").find(text)
        with pytest.raises(SandboxError):
            image_of(f"mini={text}", held=True)


def test_a_client_may_name_the_digest_too() -> None:
    offered = Offered({"mini": "/srv/mini.tar@sha256:aa", "host": "host"})
    assert offered.find("mini") == offered.find("mini@sha256:aa") == "/srv/mini.tar@sha256:aa"
    for name in ("mini@sha256:bb", "mini@", "host@sha256:aa", "other@sha256:aa"):
        with pytest.raises(SandboxError) as caught:
            offered.find(name)
        assert caught.value.fault.code == "client.unknown_image"


def test_links_in_an_image_are_followed_inside_of_it(tmp_path: Path) -> None:
    save(
        tmp_path / "i.tar", [layer(("usr", None), ("lib", "/usr/lib"), ("up", "../../..")), layer(("lib/f", b"x"))], {}
    )
    image = Images(tmp_path / "images").find(str(tmp_path / "i.tar"))
    assert (image.root / "usr/lib/f").read_bytes() == b"x"


@pytest.mark.parametrize(
    "entries",
    [
        [("../outside", b"x")],
        [("a", "b"), ("b", "a"), ("a/f", b"x")],
        [("up", "../../../.."), ("up/orchard-outside", b"x")],
        [("away", "/"), ("away/orchard-outside", b"x")],
    ],
)
def test_nothing_lands_outside_of_the_root(tmp_path: Path, entries: list[tuple[str, bytes | str | None]]) -> None:
    save(tmp_path / "i.tar", [layer(*entries)], {})
    images = Images(tmp_path / "images")
    try:
        root = images.find(str(tmp_path / "i.tar")).root
        assert (root / "orchard-outside").is_file()  # such links mean the image's own root
    except SandboxError as error:
        assert error.fault.code == "client.bad_spec"
    assert not Path("/orchard-outside").exists() and not (tmp_path / "images/outside").exists()


@pytest.mark.parametrize("name", [".wh...", ".wh..", ".wh."])
def test_a_mark_hides_nothing_outside_of_the_root(tmp_path: Path, name: str) -> None:
    save(tmp_path / "good.tar", [layer(("f", b"1"))], {})
    save(tmp_path / "bad.tar", [layer((name, b""))], {})
    images = Images(tmp_path / "images")
    good = images.find(str(tmp_path / "good.tar"))
    with pytest.raises(SandboxError):
        images.find(str(tmp_path / "bad.tar"))
    assert (good.root / "f").read_bytes() == b"1"


def test_a_folder_that_became_a_link_keeps_its_mode_to_itself(tmp_path: Path) -> None:
    host = tmp_path / "host/victim"
    host.mkdir(parents=True)
    host.chmod(0o711)
    entries = [("a", None), ("a/victim", None), ("a", str(host.parent))]
    save(tmp_path / "i.tar", [layer(*entries)], {})
    image = Images(tmp_path / "images").find(str(tmp_path / "i.tar"))
    assert (image.root / "a").is_symlink()
    assert host.stat().st_mode & 0o7777 == 0o711 and host.stat().st_mtime > 0


def test_a_work_directory_behind_a_link_is_the_images_own(tmp_path: Path) -> None:
    """What a sandbox is compared with comes out in its diff: it must never be a directory of this machine."""
    maker, (image, secret) = Maker(tmp_path), (tmp_path / "image", tmp_path / "secret")
    maker.lay_out()
    for folder in (secret, image / "usr/bin", image / "data"):
        folder.mkdir(parents=True)
    (image / "usr/bin/python3").touch()
    (image / "to").symlink_to(secret)
    (image / "own").symlink_to("/data")
    before = [maker.making(Spec(image=str(image), workdir=path), "x")[1] for path in ("/to", "/own")]
    assert before == [tmp_path / "empty", image / "data"]
    assert maker.making(Spec(workdir="/var/run"), "x")[1] == tmp_path / "skeleton/run"


def test_what_is_no_image_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "no.tar").write_bytes(b"no tar at all")
    with tarfile.open(tmp_path / "odd.tar", "w") as tar:
        (tmp_path / "manifest.json").write_text("[{}]")
        tar.add(tmp_path / "manifest.json", "manifest.json")
    images = Images(tmp_path / "images")
    for name in ("no.tar", "odd.tar", "missing.tar"):
        with pytest.raises(SandboxError) as caught:
            images.find(str(tmp_path / name))
        assert caught.value.fault.code == "client.bad_spec"


def test_nobody_waits_for_another_ones_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, quick = tmp_path / "slow.tar", tmp_path / "quick.tar"
    begun, go_on = threading.Event(), threading.Event()

    def unpacked(images: Images, archive: Path) -> Image:
        if archive == slow:
            begun.set()
            go_on.wait()
        return Image(tmp_path)

    monkeypatch.setattr(Images, "_unpacked", unpacked)
    images = Images(tmp_path / "images")
    for archive in (slow, quick):
        archive.touch()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(images.find, str(slow))
        begun.wait()
        try:
            assert pool.submit(images.find, str(quick)).result(30).root == tmp_path
        finally:
            go_on.set()
        assert first.result().root == tmp_path


def test_one_broken_archive_stands_in_nobodys_way(tmp_path: Path) -> None:
    whole = gzip.compress(layer(("f", os.urandom(100_000))))
    save(tmp_path / "cut.tar", [whole[: len(whole) // 2]], {})
    save(tmp_path / "good.tar", [layer(("f", b"1"))], {})
    images = Images(tmp_path / "images")
    with pytest.raises(SandboxError) as caught:
        images.find(str(tmp_path / "cut.tar"))
    assert caught.value.fault.code == "client.bad_spec"
    assert (images.find(str(tmp_path / "good.tar")).root / "f").read_bytes() == b"1"


@pytest.mark.parametrize("tier", ["container", "gvisor"])
def test_a_sandbox_is_made_from_an_archive(tmp_path: Path, tier: str) -> None:
    try:
        env = contained(tier)
    except ConfigError as error:
        pytest.skip(str(error))
    save(
        tmp_path / "image.tar",
        [base_layer(tmp_path / "base"), layer(("testbed/.wh.hidden.txt", b""), ("testbed/new.txt", b"new\n"))],
        {"PATH": "/usr/bin:/bin", "OF_IMAGE": "yes"},
    )
    with env, env.open(Spec(image=str(tmp_path / "image.tar"), workdir="/testbed")) as box:
        assert box.exec("echo $OF_IMAGE", timeout_s=30).stdout == b"yes\n"
        assert box.list() == ("kept.txt", "new.txt")
        assert box.diff() == ""
        box.exec("echo more >>kept.txt")
        assert "+more" in box.diff() and "new.txt" not in box.diff()
