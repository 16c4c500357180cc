"""A package that is not installed is named, with what to install, before work is spent."""

from pathlib import Path

import pytest

from orchard_cli.launch.local import launch

from .cli import orchard, refused

BLOCK = """
import os, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in os.environ.get("ABSENT", "").split(","):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
"""
HTTP_EXTRA, GGUF_EXTRA = "pip install 'orchard-cli[http]'", "pip install 'orchard-cli[gguf]'"
TRAIN = "pip install 'orchard-cli[train]'"
HTTP = "teacher=openai teacher.model=m teacher.base_url=http://127.0.0.1:9/v1"
MISSING = [
    ("echo run", "torch", "a model of our own needs the `torch` package", TRAIN),
    ("echo sft", "transformers", "a model of our own needs the `transformers` package", TRAIN),
    ("echo rl", "safetensors", "a model of our own needs the `safetensors` package", TRAIN),
    (
        f"echo distill {HTTP}",
        "openai",
        "teacher.kind=http needs the `openai` package",
        "pip install 'orchard-cli[http]'",
    ),
    ("echo distill teacher.kind=hf teacher.model=/x", "torch", "a model of our own needs the `torch` package", TRAIN),
    ("echo eval eval.policy=/tmp", "torch", "a model of our own needs the `torch` package", TRAIN),
    (
        "model import x.gguf",
        "gguf",
        "importing a GGUF file needs the `gguf` package",
        "pip install 'orchard-cli[gguf]'",
    ),
]


@pytest.fixture
def block(tmp_path: Path) -> str:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(BLOCK)
    return str(tmp_path / "site")


@pytest.mark.parametrize(("words", "absent", "error", "hint"), MISSING, ids=[f"{m[0]}-{m[1]}" for m in MISSING])
def test_a_missing_extra_is_named(tmp_path: Path, block: str, words: str, absent: str, error: str, hint: str) -> None:
    refused(orchard(*words.split(), cwd=tmp_path, PYTHONPATH=block, ABSENT=absent), 2, error, hint)
    assert not list(tmp_path.rglob("trajectories*"))


def test_a_package_that_is_no_extra_is_named_too(echo: Path, block: str) -> None:
    launch("echo", "distill", [])
    words = ("traj", "compact", "runs/echo/demo/distill/trajectories.jsonl.zst")
    ended = orchard(*words, cwd=echo, PYTHONPATH=block, ABSENT="pyarrow")
    refused(ended, 2, "this command needs the `pyarrow` package", "pip install pyarrow")


def test_distill_credit_and_measuring_the_teacher_need_no_extra(tmp_path: Path, block: str) -> None:
    for words in ("distill", "credit", "eval eval.policy=teacher"):
        ended = orchard("echo", *words.split(), cwd=tmp_path, PYTHONPATH=block, ABSENT="torch,transformers,openai")
        assert ended.code == 0, ended.err
