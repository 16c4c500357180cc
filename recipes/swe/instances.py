"""Tasks from rows in SWE-bench's schema, checked field by field: a task file is hostile input.

A row with `sdist` runs from a source distribution in the local sandbox (the `pypi` set); any other row needs the
container image that it names. Source of the schema: formats reference, 2.1 and 2.7.
"""

import hashlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from orchard_cli.errors import DataError
from orchard_cli.task import Split, Task

from .diffs import sections
from .images import command_of, image_of, workdir_of
from .rows import Problem, Row, rows

ID = re.compile(r"[A-Za-z0-9][\w.+@=-]{0,199}", re.ASCII)
PACKAGE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,98}[A-Za-z0-9])?", re.ASCII)
VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.!+_-]{0,63}", re.ASCII)
SDIST = re.compile(r"[A-Za-z0-9][\w.+!-]{0,150}\.(tar\.(gz|bz2|xz)|tgz)", re.ASCII)
SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
REQUIREMENT = re.compile(r"[A-Za-z0-9][\w.-]*(\[[\w.,\s-]*\])?\s*((===|[=~!<>]=|[<>])\s*[\w.*+!]+\s*,?\s*)*", re.ASCII)
TRAIN = frozenset({"train"})
EVAL = frozenset({"eval", "test", "dev", "validation", "valid"})
EVAL_SHARE = 1 / 2  # of the packages of a file without a `split` column

Chooser = Callable[[Row], Split]


class _Wrong(Exception):
    def __init__(self, field: str, message: str):
        super().__init__(message)
        self.field = field


def read(path: Path, choose: Chooser, problems: list[Problem]) -> Iterator[Task]:
    """Every good task of a file, in order; what is wrong with the others is appended to `problems`.

    Raises `DataError` if the file cannot be read, and at its end if it had no good task.
    """
    seen: dict[str, int] = {}
    bad = 0
    for number, row in rows(path):
        try:
            if isinstance(row, Problem):
                bad += 1
                problems.append(row)
                continue
            task = _task(row, choose)
            if task.id in seen:
                raise _Wrong("instance_id", f"{task.id} is on line {seen[task.id]} already")
        except _Wrong as wrong:
            bad += 1
            problems.append(Problem(str(path), number, wrong.field, str(wrong)))
            continue
        seen[task.id] = number
        yield task
    if not seen:
        first = f"; first: {problems[-bad]}" if bad else ""
        raise DataError(
            f"{path} has no usable task ({bad} bad lines)" if bad else f"{path} is empty",
            hint=f"one task a line in SWE-bench's schema{first}",
        )


def by_package(row: Row) -> Split:
    """The row's own `split`, else by the hash of its package: no package is in both splits."""
    name = str(row.get("package") or row.get("repo") or row.get("instance_id"))
    first = hashlib.sha256(name.lower().encode(errors="replace")).digest()[0]
    return _own_split(row) or ("eval" if first < 256 * EVAL_SHARE else "train")


def for_eval(row: Row) -> Split:
    """The row's own `split`, else eval: a benchmark is not trained on."""
    return _own_split(row) or "eval"


def _own_split(row: Row) -> Split | None:
    value = row.get("split")
    if value is None or value == "":
        return None
    if value in TRAIN:
        return "train"
    if value in EVAL:
        return "eval"
    raise _Wrong("split", f"{value!r} is neither train nor one of {', '.join(sorted(EVAL))}")


def _task(row: Row, choose: Chooser) -> Task:
    task_id = _match(row, "instance_id", ID)
    if str(row.get("repo") or "").startswith("swesmith/"):
        raise _Wrong("patch", "in SWE-smith's rows this is the bug, not the fix; turn it round first")
    hidden: dict[str, Any] = {
        "patch": _text(row, "patch", empty=True),
        "test_patch": _text(row, "test_patch", empty=True),
        "fail_to_pass": _ids(row, "FAIL_TO_PASS"),
        "pass_to_pass": _ids(row, "PASS_TO_PASS"),
    }
    if not hidden["fail_to_pass"]:
        raise _Wrong("FAIL_TO_PASS", "names no test, so nothing could show that the task is solved")
    data = _from_sdist(row, hidden) if row.get("sdist") else _from_image(row, hidden)
    prompt = _text(row, "problem_statement")
    family = str(row.get("package") or row.get("repo") or "")
    return Task(task_id, "swe", prompt, choose(row), family, data, hidden)


def _from_sdist(row: Row, hidden: dict[str, Any]) -> dict[str, Any]:
    setup = row.get("setup")
    if not isinstance(setup, list) or not all(isinstance(r, str) for r in setup):
        raise _Wrong("setup", "is not a list of requirements")
    for requirement in setup:
        if len(requirement) > 200 or not REQUIREMENT.fullmatch(requirement.strip()):
            raise _Wrong("setup", f"{requirement[:80]!r} is not a plain requirement such as `pytest==8.3.5`")
    command = _text(row, "test_cmd")
    hidden |= {"test_cmd": command, "report": "plugin"}
    return {
        "package": _match(row, "package", PACKAGE),
        "version": _match(row, "base_version", VERSION),
        "sdist": _match(row, "sdist", SDIST),
        "sha256": _match(row, "sdist_sha256", SHA256),
        "setup": setup,
        "test_cmd": command,
    }


def _from_image(row: Row, hidden: dict[str, Any]) -> dict[str, Any]:
    repo = _text(row, "repo")
    files = [s.paths[0] for s in sections(hidden["test_patch"]) if s.paths]
    known = command_of(repo, files)
    if isinstance(row.get("eval_script"), str) and row["eval_script"]:
        hidden |= {"eval_script": row["eval_script"], "report": known[1] if known else "pytest"}
    elif isinstance(row.get("test_cmd"), str) and row["test_cmd"]:
        hidden |= {"test_cmd": row["test_cmd"], "report": "pytest"}
    elif known:
        hidden |= {"test_cmd": known[0], "report": known[1]}
    else:
        raise _Wrong("test_cmd", f"is missing, as is `eval_script`, and {repo!r} is not of SWE-bench Verified")
    return {"image": image_of(row), "workdir": workdir_of(row), "repo": repo}


def _text(row: Row, field: str, *, empty: bool = False) -> str:
    value = row.get(field)
    if value is None:
        raise _Wrong(field, "is missing")
    if not isinstance(value, str):
        raise _Wrong(field, f"is not text but {type(value).__name__}")
    if not empty and not value.strip():
        raise _Wrong(field, "is empty")
    if "\0" in value:
        raise _Wrong(field, "holds a NUL character")
    return value


def _match(row: Row, field: str, pattern: re.Pattern[str]) -> str:
    value = _text(row, field)
    if not pattern.fullmatch(value):
        raise _Wrong(field, f"{value[:80]!r} is not of the form expected")
    return value


def _ids(row: Row, field: str) -> list[str]:
    """A list of test ids; SWE-bench itself writes it as a JSON string."""
    value = row.get(field)
    if value is None:
        raise _Wrong(field, "is missing")
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError) as error:
            raise _Wrong(field, f"is text, but not a JSON list: {error}") from None
    if not isinstance(value, list) or not all(isinstance(v, str) and v for v in value):
        raise _Wrong(field, "is not a list of test ids")
    return list(dict.fromkeys(value))
