"""The diff of a contained sandbox, without one: whose fault it is when there is none."""

import io
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from orchard_cli.env.channel import Channel
from orchard_cli.env.contained import comparison
from orchard_cli.errors import SandboxError


class Inside:
    """Answers like the channel to an agent."""

    def __init__(self, *members: tarfile.TarInfo):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as tar:
            for member in members:
                tar.addfile(member, io.BytesIO(bytes(member.size)))
        self._data = out.getvalue()

    def download(self, *words: str, **more: object) -> Iterator[bytes]:
        yield self._data


def fault(scratch: Path, *members: tarfile.TarInfo) -> tuple[str, str]:
    with pytest.raises(SandboxError) as caught:
        comparison.diff(cast(Channel, Inside(*members)), "/w", None, scratch)
    assert not list(scratch.iterdir())
    return caught.value.fault.code, caught.value.fault.attributable


def test_what_git_cannot_do_is_not_the_models_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "DIFFERENCE", comparison.DIFFERENCE.replace("sys.argv[1]", "'/dev/null'"))
    assert fault(tmp_path) == ("infra.git_failed", "infra")
    refuse = "raise Refused('infra.git_failed', 'git ended with 1', 'infra')"
    monkeypatch.setattr(
        comparison, "DIFFERENCE", f"from env.local.spawner.enter import Refused\ntry: {refuse}\n{CAUGHT}"
    )
    assert fault(tmp_path) == ("infra.git_failed", "infra")
    monkeypatch.setattr(comparison, "DIFFERENCE", "import time; time.sleep(600)")
    monkeypatch.setattr(comparison, "DEADLINE_S", 0.1)
    assert fault(tmp_path) == ("infra.git_failed", "infra")


CAUGHT = comparison.DIFFERENCE[comparison.DIFFERENCE.index("except Refused") :]


def test_a_link_that_no_diff_can_hold_is_the_models(tmp_path: Path) -> None:
    odd = tarfile.TarInfo("odd")
    odd.type, odd.linkname = tarfile.SYMTYPE, os.fsdecode(b"\xff")
    assert fault(tmp_path, odd) == ("workload.diff_not_text", "model")


def test_a_file_of_holes_does_not_fill_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "MOST", 1000)
    one, other = tarfile.TarInfo("one"), tarfile.TarInfo("other")
    one.size = other.size = 600
    assert fault(tmp_path, one, other) == ("workload.diff_too_large", "model")
