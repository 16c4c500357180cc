"""The scripted teacher of minibugs: read the file, change one line, run the tests, submit; or err, by the seed.

It acts through commands alone and knows the place only from what it was shown: each reply follows from the
conversation (and the task and the seed), so it can also go on from any point of an attempt that it made with
another seed. That is what measured credit needs: a finisher that is worth more the further the attempt has come.
"""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from orchard_cli.harness.formats import Format, FormatError
from orchard_cli.harness.loop import SENTINELS
from orchard_cli.policy.scripted import ScriptedPolicy
from orchard_cli.task import Task
from orchard_cli.trajectory import Message

from .edits import LineEdit, parse, smallest
from .project import TEST_COMMAND

SUBMIT = f"echo {SENTINELS[0]}"
REPAIRS = 0.5  # share of the attempts that would repair a broken state they find; the others submit it
_NUMBERED = re.compile(r"^ *(\d+)\t(.*)$", re.MULTILINE)
_GREEN = re.compile(r"^\d+ passed$", re.MULTILINE)


@dataclass(frozen=True)
class Slip:
    """One way to go wrong: how often among the errors, and whether it is made good in the end."""

    weight: int
    resolves: bool = False


SLIPS: Mapping[str, Slip] = MappingProxyType(
    {
        "wrong_fix": Slip(25),  # changes the right line wrongly, sees the test fail, submits
        "wrong_place": Slip(20),  # breaks the other function, sees it, submits
        "gives_up": Slip(15),  # submits without a change
        "harm": Slip(15),  # repairs the bug, then breaks the other function, submits
        "never_submits": Slip(15),  # repairs the bug and keeps looking until the turns run out
        "detour": Slip(10, resolves=True),  # changes the line wrongly, sees the test fail, repairs it
    }
)


@dataclass(frozen=True)
class Nature:
    """What one seed makes of the teacher. `slip` is empty for an attempt without error."""

    slip: str
    repairs: bool
    wrong: LineEdit
    astray: LineEdit

    @classmethod
    def draw(cls, task: Task, seed: int, error_rate: float) -> "Nature":
        rng = random.Random(f"{task.id}/{seed}")
        errs = rng.random() < error_rate
        slip = rng.choices(list(SLIPS), [s.weight for s in SLIPS.values()])[0]
        repairs = rng.random() < REPAIRS
        script = task.hidden["script"]
        astray = LineEdit(*script["astray"])
        wrong = [LineEdit(*edit) for edit in script["slips"]] or [astray]
        return cls(slip if errs else "", repairs or (errs and slip == "detour"), rng.choice(wrong), astray)


@dataclass
class Seen:
    """What the conversation has shown so far. `lines` is the file as it must stand now, None while not known."""

    lines: list[str] | None = None
    tested: bool | None = None  # the last test run since the last change passed
    shown: bool = False  # the last command showed the file
    edited: bool = False
    failed: bool = False  # some test run did not pass

    @classmethod
    def of(cls, messages: Sequence[Message], format: Format, path: str) -> "Seen":
        seen = cls()
        for i, message in enumerate(messages):
            if message.role == "assistant":
                try:
                    command = format.parse(message)
                except FormatError:
                    continue
                seen.take(command, messages[i + 1].content if i + 1 < len(messages) else "", path)
        return seen

    def take(self, command: str, output: str, path: str) -> None:
        """One command and what came of it."""
        edit = parse(command)
        self.shown = command == _read(path)
        if self.shown:
            self.lines = [line for _, line in _NUMBERED.findall(output)]
        elif command == TEST_COMMAND:
            self.tested = _GREEN.search(output) is not None
            self.failed = self.failed or not self.tested
        else:
            self.tested = None
            self.edited = True
            known = edit is not None and edit[1] == path and self.lines is not None
            self.lines = edit[0].apply(self.lines) if known and edit and self.lines else None


def script(task: Task, *, seed: int, error_rate: float, format: Format) -> ScriptedPolicy:
    """The teacher for one attempt at `task`; in a share `error_rate` of the seeds it makes one of `SLIPS`."""
    nature = Nature.draw(task, seed, error_rate)
    path: str = task.hidden["script"]["file"]
    broken = task.data["files"][path].splitlines()
    fixed = LineEdit(*task.hidden["script"]["fix"]).apply(broken)

    def respond(messages: Sequence[Message]) -> Message:
        return format.encode(_next(Seen.of(messages, format, path), nature, path, broken, fixed))

    return ScriptedPolicy("script", respond)


def _next(seen: Seen, nature: Nature, path: str, broken: list[str], fixed: list[str]) -> str:
    if seen.lines is None:
        return _read(path)
    if seen.lines == fixed:
        return _when_fixed(seen, nature, path)
    if seen.lines == broken and not seen.edited:
        return _when_untouched(nature, path, broken, fixed)
    if seen.tested is None and not seen.failed:
        return TEST_COMMAND
    if not nature.repairs or nature.slip not in ("", "detour"):
        return SUBMIT
    return _repair(seen.lines, fixed, path)


def _when_fixed(seen: Seen, nature: Nature, path: str) -> str:
    if nature.slip == "harm" and not seen.tested:
        return nature.astray.command(path)
    if nature.slip == "never_submits":
        return TEST_COMMAND if seen.shown or seen.tested is None else _read(path)
    return SUBMIT if seen.tested else TEST_COMMAND


def _when_untouched(nature: Nature, path: str, broken: list[str], fixed: list[str]) -> str:
    if nature.slip == "gives_up":
        return SUBMIT
    if nature.slip in ("wrong_fix", "detour"):
        return nature.wrong.command(path)
    if nature.slip == "wrong_place":
        return nature.astray.command(path)
    return _repair(broken, fixed, path)


def _repair(now: list[str], fixed: list[str], path: str) -> str:
    """The next change towards the fixed file: one line, or all of them where lines were added or lost."""
    if len(now) != len(fixed):
        return f"cat > {path} << 'EOF'\n" + "\n".join(fixed) + "\nEOF"
    line = next(i for i, (a, b) in enumerate(zip(now, fixed, strict=True)) if a != b)
    return smallest(line + 1, now[line], fixed[line]).command(path)


def _read(path: str) -> str:
    return f"cat -n {path}"
