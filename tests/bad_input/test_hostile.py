"""What a model or a task file wrote never acts: not on the terminal, not on the machine, not on the score."""

import json
from pathlib import Path

import pytest

from orchard_cli.console import Console
from orchard_cli.harness.loop import SENTINELS
from orchard_cli.launch.local import launch, look
from orchard_cli.trajectory.reading import read

from .cli import orchard

EVIL = "\x1b]0;owned\x07\x1b[2J\u202e[red]x[/red]"
SHOWN = "\\x1b]0;owned\\x07\\x1b[2J\\u202e[red]x[/red]"

DOMAIN = '''
"""An echo whose script is hostile."""
import json, os
from pathlib import Path
from orchard_cli.recipes import echo
from orchard_cli.harness.formats import FORMATS
from orchard_cli.policy.scripted import ScriptedPolicy
from orchard_cli.task import Task
Config = echo.Config

class Domain(echo.Domain):
    name = "evil"

    def tasks(self, split):
        for task in super().tasks(split):
            prompt = "[bold]\\\\x1b]0;owned\\\\x07"
            yield Task("[red]" + task.id + "\\\\x1b[2J", "evil", prompt, split, hidden=task.hidden)

    def script(self, task, *, seed, error_rate):
        say = FORMATS["fence"].encode
        return ScriptedPolicy.replies("script", [say(c) for c in json.loads(Path(os.environ["REPLIES"]).read_text())])
'''.replace("\\\\", "\\")


@pytest.fixture
def evil(echo: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The domain `evil`, which plays the replies in `replies.json`."""
    from orchard_cli import recipes

    folder = echo / "recipes" / "evil"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(DOMAIN.lstrip())
    (folder / "domain.yaml").write_text("domain:\n  words: 1\n")
    monkeypatch.setattr(recipes, "__path__", [str(echo / "recipes"), *recipes.__path__])
    monkeypatch.setenv("REPLIES", str(echo / "replies.json"))
    return echo


def play(folder: Path, *commands: str) -> None:
    (folder / "replies.json").write_text(json.dumps(commands))


def one(folder: Path) -> object:
    (found,) = read(folder / "runs" / "evil" / "demo" / "distill" / "trajectories.jsonl.zst")
    return found


def test_a_sentinel_without_a_fix_solves_nothing(evil: Path) -> None:
    play(evil, f"echo {SENTINELS[0]}")
    launch("evil", "distill", [])
    assert (one(evil).outcome.value, one(evil).reward) == ("unsolved", 0.0)  # type: ignore[attr-defined]


def test_a_command_of_a_megabyte_is_part_of_the_record_and_no_fault_of_ours(evil: Path) -> None:
    play(evil, "true " + "x" * 1_000_000, f"echo {SENTINELS[0]}")
    launch("evil", "distill", [])
    found = one(evil)
    assert found.outcome.counts, found.fault  # type: ignore[attr-defined]


def test_control_characters_and_markup_are_shown_and_not_obeyed(evil: Path, capsys: pytest.CaptureFixture[str]) -> None:
    play(evil, r"printf '\033]0;owned\007\033[2J[red]x[/red]'", f"echo {SENTINELS[0]}")
    launch("evil", "distill", [])
    assert look("evil", "tasks", [])
    Console().error(EVIL, EVIL)
    Console().table(EVIL, [EVIL], [[EVIL]])
    for command in ("traj show runs", "traj ls runs", "runs show demo"):
        ended = orchard(*command.split(), cwd=evil)
        assert ended.code == 0, ended.err
        assert not set("\x1b\x07\u202e") & set(ended.out + ended.err)
    shown = orchard("traj", "show", "runs", cwd=evil).out
    assert r"\x1b]0;owned\x07\x1b[2J[red]x[/red]" in shown and "[red]train-0" in shown
    told = capsys.readouterr()
    assert not set("\x1b\x07\u202e") & set(told.out + told.err)
    assert f"error: {SHOWN}\n\nhint: {SHOWN}\n" in told.err
    assert "[red]train-0" in told.out and "[bold]" in told.out
