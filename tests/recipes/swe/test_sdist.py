"""Source trees and environments, made by the real pip from a folder."""

import hashlib
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from orchard_cli.recipes.swe import environment
from orchard_cli.recipes.swe.sdist import Sdist, folder

from orchard_cli.errors import SandboxError

from .conftest import PROJECT, Index, sdist


@pytest.fixture
def shop(index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sdist:
    monkeypatch.setenv("ORCHARD_CACHE", str(tmp_path / "cache"))
    return Sdist("shop", "1.0", "shop-1.0.tar.gz", index.row["sdist_sha256"])


def test_the_tree_is_the_unpacked_sdist_in_a_clean_git_repository(shop: Sdist) -> None:
    tree = shop.tree()
    assert {name: (tree / name).read_text() for name in PROJECT} == PROJECT
    status = subprocess.run(["git", "status", "--porcelain"], cwd=tree, capture_output=True, text=True, check=True)
    assert status.stdout == ""


def test_later_uses_need_no_index(shop: Sdist, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = shop.tree()
    monkeypatch.setenv("PIP_FIND_LINKS", "/nowhere")
    assert shop.tree() == tree
    assert shop.fetch().name == "shop-1.0.tar.gz"


def test_a_file_with_another_hash_is_refused_by_name_with_both_hashes(shop: Sdist) -> None:
    wrong = replace(shop, sha256="0" * 64)
    with pytest.raises(SandboxError) as caught:
        wrong.fetch()
    message = str(caught.value)
    assert message == f"shop 1.0 (shop-1.0.tar.gz): expected sha256 {'0' * 64}, got {shop.sha256}"
    assert (caught.value.fault.code, caught.value.fault.attributable) == ("sdist_hash", "infra")
    assert shop.fetch().exists()


def test_the_hash_is_checked_before_any_code_of_the_package_runs(
    shop: Sdist, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = tmp_path / "ran"
    evil = PROJECT | {"backend.py": f"open({str(ran)!r}, 'w').close()\n" + PROJECT["backend.py"]}
    (tmp_path / "shop-1.0.tar.gz").write_bytes(sdist(evil))
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(SandboxError, match="expected sha256"):
        shop.fetch()
    assert not ran.exists()


def test_a_missing_sdist_names_the_package_and_may_be_tried_again(
    shop: Sdist, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(SandboxError, match=r"shop 1\.0 \(shop-1\.0\.tar\.gz\): pip could not download it") as caught:
        shop.tree()
    assert (caught.value.fault.code, caught.value.fault.retry) == ("sdist_missing", "same")
    assert "index" in caught.value.hint


def test_a_damaged_file_in_the_cache_is_fetched_again(shop: Sdist) -> None:
    shop.fetch().write_bytes(b"half")
    assert hashlib.sha256(shop.fetch().read_bytes()).hexdigest() == shop.sha256


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (sdist(PROJECT | {"../../escaped": "x"}), "OutsideDestinationError"),
        (sdist({"shop-1.0/a": "1", "other/b": "2"}, root="."), "holds 2 entries"),
        (b"not an archive", "ReadError"),
        (sdist(PROJECT)[:200], "EOFError"),
    ],
)
def test_an_archive_that_is_not_one_plain_folder_is_refused(shop: Sdist, tmp_path: Path, data: bytes, why: str) -> None:
    bad = replace(shop, sha256=hashlib.sha256(data).hexdigest())
    (folder(f"sdists/{bad.sha256[:24]}") / bad.file).write_bytes(data)
    with pytest.raises(SandboxError, match=why) as caught:
        bad.tree()
    assert caught.value.fault.code == "sdist_unpack"
    assert not list(tmp_path.rglob("escaped"))
    assert not list(folder("trees").iterdir())


def test_an_environment_is_made_once_for_many_threads_and_has_what_it_needs(index: Index) -> None:
    with ThreadPoolExecutor(4) as pool:
        made = set(pool.map(environment.environment, [index.row["setup"]] * 4))
    assert len(made) == 1
    python = made.pop() / "bin" / "python"
    done = subprocess.run([python, "-m", "pytest", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("pytest ")


def test_a_half_made_environment_is_made_anew(index: Index) -> None:
    made = environment.environment([])
    (made / environment.MARKER).unlink()
    (made / "bin" / "python").unlink()
    assert environment.environment([]) == made
    assert (made / "bin" / "python").exists()


def test_requirements_that_cannot_be_had_are_an_infrastructure_fault(index: Index) -> None:
    with pytest.raises(SandboxError, match=r"no-such-thing==1") as caught:
        environment.environment(["no-such-thing==1"])
    assert (caught.value.fault.code, caught.value.fault.attributable) == ("setup_failed", "infra")
