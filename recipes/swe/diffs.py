"""Unified diffs, cut into one section a file, so that single files can be left out."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


@dataclass(frozen=True)
class Section:
    """The part of a diff that is about one file. `paths`: all names it touches, relative to the root."""

    text: str
    paths: tuple[str, ...]
    new: bool


def sections(diff: str) -> Iterator[Section]:
    """Every section in order; text before the first one is left out."""
    lines: list[str] = []
    old = new = 0  # lines that the current hunk still owes
    git = False  # the section began with `diff --git`, so that `---` does not begin another
    for line in _lines(diff):
        if old > 0 or new > 0:
            tag = line[:1]
            old -= tag in " -\n"
            new -= tag in " +\n"
            lines.append(line)
            continue
        if line.startswith("diff --git ") or (line.startswith("--- ") and not (git and not _hunks(lines))):
            if lines:
                yield _section(lines)
            lines, git = [], line.startswith("diff --git ")
        elif found := HUNK.match(line):
            old, new = int(found[2] or 1), int(found[4] or 1)
        elif not lines:
            continue
        lines.append(line)
    if lines:
        yield _section(lines)


def _lines(text: str) -> list[str]:
    """Cut at line feeds only: `splitlines` also cuts at form feeds and others that occur in source code."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _hunks(lines: list[str]) -> bool:
    return any(HUNK.match(line) for line in lines)


def _section(lines: list[str]) -> Section:
    paths: list[str] = []
    head = []
    for line in lines:
        if line.startswith("@@ "):
            break
        head.append(line.rstrip("\r\n"))
    for line in head:
        if line.startswith(("--- ", "+++ ")):
            paths += _stripped(line[4:].split("\t")[0])
        elif line.startswith(("rename from ", "rename to ", "copy from ", "copy to ")):
            paths.append(_unquoted(line.split(" ", 2)[2]))
    if head and head[0].startswith("diff --git "):
        paths += _both(head[0][len("diff --git ") :])
    new = any(line.startswith("new file mode") or line.startswith("--- /dev/null") for line in head)
    return Section("".join(lines), tuple(dict.fromkeys(paths)), new)


def _stripped(name: str) -> list[str]:
    name = _unquoted(name)
    return [] if name == "/dev/null" else [name.split("/", 1)[-1]]


def _both(names: str) -> list[str]:
    """The names in `a/x b/y`; where spaces make that ambiguous, both sides are the same name."""
    if names.startswith('"') or '"' in names:
        return [n for part in re.findall(r'"(?:[^"\\]|\\.)*"|\S+', names) for n in _stripped(part)]
    half = len(names) // 2
    if names[2:half] == names[half + 3 :]:
        return [names[2:half]]
    return [n for part in names.split(" b/", 1) for n in [part.removeprefix("a/")]]


def _unquoted(name: str) -> str:
    if not name.startswith('"'):
        return name
    try:
        return ast.literal_eval("b" + name).decode("utf-8", "replace")
    except (ValueError, SyntaxError):
        return name.strip('"')
