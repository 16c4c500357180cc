"""One-line edits as `sed` commands: the smallest one between two lines, and what one does."""

import re
from typing import NamedTuple

_TOKEN = re.compile(r'    |\s|[A-Za-z_]\w*|\d+|"[^"]*"|\*\*|//|[<>=!+*/%-]=|.')
_SED = re.compile(r"sed -i '(\d+)s([/|])((?:\\.|[^\\])*?)\2((?:\\.|[^\\])*?)\2' (\S+)")
_SPECIAL = re.compile(r"[\\.*\[\]^$]")


class LineEdit(NamedTuple):
    """Replace the first `old` on line `line` (from 1) by `new`."""

    line: int
    old: str
    new: str

    def command(self, path: str) -> str:
        """The `sed` call; the mark between the parts is `/`, or `|` where the text has a `/`."""
        mark = "|" if "/" in self.old + self.new else "/"
        old = _SPECIAL.sub(r"\\\g<0>", self.old)
        new = self.new.replace("\\", "\\\\").replace("&", "\\&")
        return f"sed -i '{self.line}s{mark}{old}{mark}{new}{mark}' {path}"

    def apply(self, lines: list[str]) -> list[str]:
        at = self.line - 1
        if not 0 <= at < len(lines):
            return lines
        return [*lines[:at], lines[at].replace(self.old, self.new, 1), *lines[at + 1 :]]


def smallest(line: int, before: str, after: str) -> LineEdit:
    """The shortest replacement of whole tokens that turns `before` into `after` and hits the right place."""
    a, b = _TOKEN.findall(before), _TOKEN.findall(after)
    start = 0
    while start < min(len(a), len(b)) and a[start] == b[start]:
        start += 1
    same = 0
    while same < min(len(a), len(b)) - start and a[-1 - same] == b[-1 - same]:
        same += 1
    stop, end = len(a) - same, len(b) - same
    while start > 0 and not _hits(a, start, stop):
        start -= 1
    while stop < len(a) and not _hits(a, start, stop):
        stop, end = stop + 1, end + 1
    return LineEdit(line, "".join(a[start:stop]), "".join(b[start:end]))


def _hits(tokens: list[str], start: int, stop: int) -> bool:
    """True if the first place where tokens[start:stop] stand in the line is this one, and it is no bare space."""
    old = "".join(tokens[start:stop])
    return bool(old.strip()) and "".join(tokens).find(old) == len("".join(tokens[:start]))


def parse(command: str) -> tuple[LineEdit, str] | None:
    """(edit, file) of a command that `LineEdit.command` wrote, else None."""
    found = _SED.fullmatch(command.strip())
    if not found:
        return None
    old, new = (re.sub(r"\\(.)", r"\1", part) for part in (found[3], found[4]))
    return LineEdit(int(found[1]), old, new), found[5]
