"""The files of one task: a module of two functions, their tests, and the runner."""

import difflib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from orchard_cli.errors import DataError
from orchard_cli.task import Task

RUNNER, TESTS = "t.py", "tests.py"
TEST_COMMAND = f"python3 -SB {RUNNER}"
HIDDEN_COMMAND = f"python3 -ESB {RUNNER}"
RUNNER_TEXT = Path(__file__).with_name("runner.txt").read_text(encoding="utf-8")


class Case(NamedTuple):
    """One example of a function: these arguments give that value."""

    args: tuple[Any, ...]
    want: Any

    @property
    def size(self) -> int:
        """Length as written, in characters."""
        return len(repr(self.args)) + len(repr(self.want))

    def call(self, name: str) -> str:
        return f"{name}({', '.join(map(repr, self.args))})"


def tests_text(module: str, named: Mapping[str, tuple[str, Sequence[Case]]]) -> str:
    """A tests file. `named` maps the id of each test to (function, its cases)."""
    functions = ", ".join(dict.fromkeys(function for function, _ in named.values()))
    text = f"from {module} import {functions}\nfrom t import eq\n"
    for test, (function, cases) in named.items():
        lines = "".join(f"    eq({case.call(function)}, {case.want!r})\n" for case in cases)
        text += f"\n\ndef {test}():\n{lines}"
    return text


def patch_text(path: str, before: str, after: str) -> str:
    """A unified diff (a/ b/) from one text to another."""
    lines = difflib.unified_diff(before.splitlines(True), after.splitlines(True), f"a/{path}", f"b/{path}", n=3)
    return f"diff --git a/{path} b/{path}\n" + "".join(lines)


def tree(task: Task, cache_dir: Path) -> Path:
    """The project of `task` as a directory below `cache_dir`, named by its content; made once, never changed.

    Any number of processes may ask at once: whoever is first puts the finished directory in place.
    Raises `DataError` if a file of the task would lie outside the directory.
    """
    files: dict[str, str] = task.data["files"]
    for path in files:
        parts = PurePosixPath(path)
        if parts.is_absolute() or ".." in parts.parts or not parts.name:
            raise DataError(f"{task.id}: data.files names `{path}`", hint="paths are relative and stay below")
    digest = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:24]
    target = cache_dir / digest
    if target.is_dir():
        return target
    cache_dir.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f".{digest}-", dir=cache_dir))
    try:
        made.chmod(0o755)
        for path, text in files.items():
            (made / path).parent.mkdir(parents=True, exist_ok=True)
            (made / path).write_text(text, encoding="utf-8")
        os.rename(made, target)  # noqa: PTH104 - must fail where `target` has come to be
    except OSError:
        shutil.rmtree(made, ignore_errors=True)
        if not target.is_dir():
            raise
    return target
