"""The scripted teacher of tasks that have a reference fix: look around, patch, check, submit; or err, by the seed.

Each reply follows from the conversation alone: the next command of the plan that has not been said yet. So the
script can also finish an attempt that somebody else began.
"""

import base64
import random
import shlex
from collections import Counter
from collections.abc import Sequence

from orchard_cli.harness.formats import Format, FormatError
from orchard_cli.harness.loop import SENTINELS
from orchard_cli.policy.scripted import ScriptedPolicy
from orchard_cli.task import Task
from orchard_cli.trajectory import Message

from .diffs import HUNK, Section, sections

PATCH = "/tmp/fix.patch"  # noqa: S108 - inside the sandbox, outside the tree
CHUNK = 48_000  # characters of one command; the kernel takes at most 128 KiB in one argument
CHECK = (
    "import ast, sys, pathlib; "
    "[ast.parse(pathlib.Path(f).read_text()) for f in sys.argv[1:] if pathlib.Path(f).is_file()]; print('syntax ok')"
)
Turn = tuple[str, str]  # thought, command


def script(task: Task, *, seed: int, error_rate: float, format: Format) -> ScriptedPolicy:
    """Solves `task` with its reference fix; in a share `error_rate` of the seeds it goes wrong in one of three ways."""
    rng = random.Random(f"{seed}/{task.id}")
    parts = list(sections(task.hidden["patch"]))
    wrong = rng.choice(("gives_up", "partial", "breaks")) if rng.random() < error_rate else ""
    return _policy("script", _plan(parts, wrong, rng), format)


def noop(format: Format) -> ScriptedPolicy:
    """Submits at once."""
    return _policy("noop", [_submit()], format)


def _policy(name: str, plan: Sequence[Turn], format: Format) -> ScriptedPolicy:
    def respond(messages: Sequence[Message]) -> Message:
        said = Counter(_commands(messages, format))
        for thought, command in plan:
            if said[command.strip()] == 0:
                return format.encode(command, thought)
            said[command.strip()] -= 1
        return format.encode(plan[-1][1], plan[-1][0])

    return ScriptedPolicy(name, respond)


def _commands(messages: Sequence[Message], format: Format) -> list[str]:
    found = []
    for message in messages:
        if message.role == "assistant":
            try:
                found.append(format.parse(message))
            except FormatError:
                continue
    return found


def _plan(parts: list[Section], wrong: str, rng: random.Random) -> list[Turn]:
    files = [shlex.quote(p) for p in dict.fromkeys(p for part in parts for p in part.paths)]
    look = [("Let me see what there is.", "ls && git log --oneline | head -3")]
    look += [("This is the place.", _view(part)) for part in parts[:2] if not part.new]
    if wrong == "gives_up" or not parts:
        return [*look, ("I cannot find the cause.", _submit()[1])]
    if wrong == "partial":
        parts = _part_of(parts, rng)
    applied = f"git apply {PATCH} || patch -p1 -i {PATCH}"
    turns = [*look, *_written("".join(p.text for p in parts)), ("Apply it.", applied)]
    if wrong == "breaks" and files:
        turns.append(("Tidy up.", _breakage(parts[0])))
    python = " ".join(f for f in files if f.strip("'").endswith(".py"))
    if python:
        turns.append(("Does it still parse?", f'python3 -c "{CHECK}" {python}'))
    return [*turns, _submit()]


def _submit() -> Turn:
    return "Done.", f"echo {SENTINELS[0]}"


def _view(part: Section) -> str:
    """The lines around the first hunk."""
    starts = [int(found[1]) for line in part.text.split("\n") if (found := HUNK.match(line))]
    start = max(1, starts[0] - 5) if starts else 1
    return f"sed -n '{start},{start + 30}p' {shlex.quote(part.paths[0])}"


def _written(patch: str) -> list[Turn]:
    """Commands that write the patch: plain where it survives a fenced here-document, else in base64."""
    plain = "```" not in patch and "\r" not in patch and patch.endswith("\n")
    text = patch if plain else base64.encodebytes(patch.encode("utf-8", "surrogateescape")).decode()
    turns, into = [], ">"
    for chunk in _chunks(text):
        end = "EOF"
        while end in chunk:
            end += "_"
        if plain:
            command = f"cat {into} {PATCH} <<'{end}'\n{chunk}{end}"
        else:
            command = f"base64 -d {into} {PATCH} <<'{end}'\n{chunk}{end}"
        turns.append(("Here is the fix." if into == ">" else "The rest of it.", command))
        into = ">>"
    return turns


def _chunks(text: str) -> list[str]:
    """Cut at line ends, each chunk about `CHUNK` characters; a longer line stays whole."""
    chunks: list[str] = []
    size = CHUNK
    for line in text.split("\n")[:-1]:
        if size + len(line) > CHUNK:
            chunks.append("")
            size = 0
        chunks[-1] += line + "\n"
        size += len(line) + 1
    return chunks


def _part_of(parts: list[Section], rng: random.Random) -> list[Section]:
    """A fix that is not whole: some files of several, or one file without the last of its added lines."""
    if len(parts) > 1:
        return parts[: rng.randint(1, len(parts) - 1)]
    lines = parts[0].text.split("\n")
    added = [i for i, line in enumerate(lines) if line.startswith("+") and not line.startswith("+++")]
    drop = set(added[len(added) // 2 :])
    text = "\n".join(_recounted([line for i, line in enumerate(lines) if i not in drop]))
    return [Section(text, parts[0].paths, parts[0].new)]


def _recounted(lines: list[str]) -> list[str]:
    """The same diff with the line counts of its hunks set right."""
    heads = [i for i, line in enumerate(lines) if HUNK.match(line)]
    for i, end in zip(heads, [*heads[1:], len(lines)], strict=True):
        found = HUNK.match(lines[i])
        assert found
        body = [line[:1] or " " for line in lines[i + 1 : end] if line or end != len(lines)]
        old, new = sum(t in " -" for t in body), sum(t in " +" for t in body)
        lines[i] = f"@@ -{found[1]},{old} +{found[3]},{new} @@{lines[i][found.end() :]}"
    return lines


def _breakage(part: Section) -> str:
    """Deletes one line near the fix."""
    starts = [int(found[3]) for line in part.text.split("\n") if (found := HUNK.match(line))]
    return f"sed -i '{(starts[0] if starts else 1) + 1}d' {shlex.quote(part.paths[-1])}"
