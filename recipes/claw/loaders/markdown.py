"""QwenClawBench and PinchBench: one Markdown file a task, with a `grade` function and a workspace.

`tasks.path` names a file or a folder of them. Only the automated part of a hybrid grader is measured; what a judge
would say is named in the record as skipped. A task that only a judge can grade is a problem, not a score.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from orchard_cli.errors import DataError
from orchard_cli.task import Task

from ..tasks.reading import FieldError, Problem, parse

MOST_FILE = 16 * 2**20  # bytes of one workspace file
# front matter ends on a line of its own, and a fence at a line's start: quoted text holds both
_FRONT = re.compile(r"\A---[ \t]*\n(.*?\n)---[ \t]*\n(.*)\Z", re.DOTALL)
_SECTION = re.compile(r"^## +(.+?)[ \t]*$", re.MULTILINE)
_CODE = re.compile(r"^```python[ \t]*\n(.*?)^```[ \t]*$", re.DOTALL | re.MULTILINE)


def read(path: str) -> Iterator[Task | Problem]:
    """Every task, or what is wrong with it. Raises `DataError` if there is no such file."""
    root = Path(path)
    found = sorted(root.rglob("task*.md")) if root.is_dir() else [root]
    if not found or not found[0].is_file():
        raise DataError(f"{root}: no task of this format", hint="tasks.path names a .md file, or a folder of task*.md")
    for file in found:
        try:
            yield _task(file)
        except FieldError as error:
            yield Problem(str(file), 1, error.field, error.message)
        except (OSError, UnicodeDecodeError) as error:
            yield Problem(str(file), 1, "", str(error))


def _task(file: Path) -> Task:
    split = _FRONT.match(file.read_text("utf-8-sig").replace("\r\n", "\n"))
    if split is None:
        raise FieldError("", "it does not begin with front matter between `---` lines")
    about, sections = parse(split[1]), _sections(split[2])
    for field in ("id", "grading_type"):
        if not about.get(field):
            raise FieldError(field, "is missing")
    if not sections.get("prompt"):
        raise FieldError("## Prompt", "is missing")
    code = _CODE.search(sections.get("automated checks", ""))
    if code is None:
        raise FieldError("## Automated Checks", f"no `grade` function; grading_type is {about['grading_type']}")
    judged = about["grading_type"] != "automated"
    return Task(
        f"qwenclaw/{about['id']}",
        "claw",
        sections["prompt"],
        "eval",
        str(about.get("category", "")),
        data={"copies": _files(about.get("workspace_files") or [], file, str(about["id"]))},
        hidden={
            "grader": "function",
            "code": code[1],
            "pass_at": 1.0,  # the benchmark counts perfect runs
            "skipped": ["llm_judge"] if judged else [],
            "expected": sections.get("expected behavior", ""),
        },
    )


def _sections(body: str) -> dict[str, str]:
    """Title in lower case → text. Titles inside of fences do not count."""
    fences = [m.span() for m in re.finditer(r"^```.*?^```[ \t]*$", body, re.DOTALL | re.MULTILINE)]
    heads = [m for m in _SECTION.finditer(body) if not any(a < m.start() < b for a, b in fences)]
    ends = [*(m.start() for m in heads[1:]), len(body)]
    return {m[1].lower(): body[m.end() : end].strip() for m, end in zip(heads, ends, strict=True)}


def _files(entries: Any, file: Path, id: str) -> dict[str, dict[str, str]]:
    """Destination → {path} of a file beside the task, or {text}."""
    found: dict[str, dict[str, str]] = {}
    for i, entry in enumerate(entries):
        where = f"workspace_files[{i}]"
        if not isinstance(entry, dict):
            raise FieldError(where, "is {source, dest} or {path, content}")
        if "content" in entry and "path" in entry:
            found[_inside(str(entry["path"]), where)] = {"text": str(entry["content"])}
            continue
        if "source" not in entry:
            raise FieldError(where, "is {source, dest} or {path, content}")
        source = _source(str(entry["source"]), file, id)
        if source is None:
            raise FieldError(f"{where}.source", f"`{entry['source']}` is not there")
        found[_inside(str(entry.get("dest", entry["source"])), where)] = {"path": str(source)}
    return found


def _source(name: str, file: Path, id: str) -> Path | None:
    """A file below the task's own assets, or beside it; never elsewhere on this machine."""
    places = [file.parents[1] / "assets" / id, file.parents[1] / "assets", file.parent / "assets", file.parent]
    for place in places:
        found = (place / name).resolve()
        if found.is_file() and found.is_relative_to(place.resolve()) and found.stat().st_size <= MOST_FILE:
            return found
    return None


def _inside(name: str, where: str) -> str:
    if name.startswith("/") or ".." in Path(name).parts:
        raise FieldError(where, f"`{name}` lies outside of the workspace")
    return name
