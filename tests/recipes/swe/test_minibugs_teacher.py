"""The scripted teacher, through the real harness with the compact prompts, in a plain directory."""

import json
import os
import shutil
import subprocess
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from orchard_cli.recipes.swe.minibugs import SLIPS, edits, generate, proof, script, tree
from orchard_cli.recipes.swe.minibugs.teacher import Nature

from orchard_cli import recipes, schema
from orchard_cli.env.sandbox import ExecResult
from orchard_cli.harness.formats import FORMATS
from orchard_cli.harness.harness import Transcript
from orchard_cli.harness.loop import MiniLoop
from orchard_cli.policy.policy import Sampling
from orchard_cli.policy.scripted import ScriptedPolicy
from orchard_cli.task import Task
from orchard_cli.trajectory import Message, Step

TASKS = list(generate("train", 42, 5))
FENCE = FORMATS["fence"]
PROMPTS = next(p for folder in recipes.__path__ if (p := Path(folder) / "swe" / "prompts" / "compact").is_dir())


@dataclass
class Folder:
    """A directory in which commands run: enough of a sandbox for the loop."""

    path: Path
    workdir: str = "."

    def exec(self, command: str, **_: Any) -> ExecResult:
        done = subprocess.run(["bash", "-c", command], cwd=self.path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return ExecResult(done.returncode, "exited", done.stdout, b"", stdout_bytes=len(done.stdout))


@dataclass
class Quick:
    """The same to the teacher as a directory, without a process: for the tests that count many attempts."""

    task: Task
    text: str
    workdir: str = "."

    @property
    def file(self) -> str:
        return self.task.hidden["script"]["file"]

    def exec(self, command: str, **_: Any) -> ExecResult:
        edit = edits.parse(command)
        if edit:
            self.text = "\n".join(edit[0].apply(self.text.splitlines())) + "\n"
            return said("")
        if command == f"cat -n {self.file}":
            return said("".join(f"{i:6}\t{line}\n" for i, line in enumerate(self.text.splitlines(), 1)))
        if command == self.task.data["test_cmd"]:
            passed = list(self.outcomes(self.task.data["files"]["tests.py"]).values())
            failed = f", {passed.count(False)} failed" if False in passed else ""
            return said(f"{passed.count(True)} passed{failed}\n")
        return said(command.removeprefix("echo ") + "\n")

    def outcomes(self, tests: str) -> dict[str, bool]:
        return proof.outcomes(self.file.removesuffix(".py"), [self.text], tests)[0]

    def solved(self) -> bool:
        return all(self.outcomes(self.task.hidden["test_files"]["tests.py"]).values())


def said(output: str) -> ExecResult:
    return ExecResult(0, "exited", output.encode(), b"")


def quick(task: Task) -> Quick:
    return Quick(task, task.data["files"][task.hidden["script"]["file"]])


@pytest.fixture
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def attempt(
    task: Task, place: Path, *, seed: int = 0, error_rate: float = 0.0, format: str = "fence"
) -> tuple[Transcript, bool]:
    """One attempt from the start, and whether what it left passes the hidden tests."""
    folder = fresh(task, place)
    policy = script(task, seed=seed, error_rate=error_rate, format=FORMATS[format])
    made = loop(format).run(task, folder, policy, Sampling())
    return made, solved(task, folder)


def loop(format: str = "fence") -> MiniLoop:
    return MiniLoop(schema.Harness(format=format, max_steps=8), PROMPTS)


def fresh(task: Task, place: Path) -> Folder:
    copy = Path(tempfile.mkdtemp(dir=place)) / "project"
    shutil.copytree(tree(task, place / "cache"), copy)
    return Folder(copy)


def solved(task: Task, folder: Folder) -> bool:
    for path, text in task.hidden["test_files"].items():
        (folder.path / path).write_text(text)
    report = folder.path / "report.json"
    env = {**os.environ, "TASK_REPORT": str(report)}
    subprocess.run(task.hidden["test_cmd"].split(), cwd=folder.path, env=env, capture_output=True)
    found = json.loads(report.read_text())
    return all(found.get(t) == "passed" for t in task.hidden["fail_to_pass"] + task.hidden["pass_to_pass"])


def actions(transcript: Transcript) -> list[str]:
    return [step.action.split()[0] for step in transcript.steps]


def seed_for(task: Task, slip: str) -> int:
    return next(s for s in range(200) if Nature.draw(task, s, 1.0).slip == slip)


@pytest.mark.parametrize("format", ["fence", "tool"])
def test_without_errors_it_solves_every_task_in_four_short_turns(place: Path, format: str) -> None:
    for task in TASKS[:14]:
        made, good = attempt(task, place, format=format)
        assert actions(made) == ["cat", "sed", "python3", "echo"]
        assert (made.stop, good) == ("submitted", True)


ENDS = {
    "wrong_fix": (["cat", "sed", "python3", "echo"], "submitted", False),
    "wrong_place": (["cat", "sed", "python3", "echo"], "submitted", False),
    "gives_up": (["cat", "echo"], "submitted", False),
    "harm": (["cat", "sed", "sed", "python3", "echo"], "submitted", False),
    "never_submits": (["cat", "sed", "python3", "cat", "python3", "cat", "python3", "cat"], "step_limit", True),
    "detour": (["cat", "sed", "python3", "sed", "python3", "echo"], "submitted", True),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_each_error_ends_as_it_says(place: Path, slip: str) -> None:
    assert set(ENDS) == set(SLIPS)
    for task in [t for t in TASKS if t.hidden["script"]["slips"]][:4]:
        made, good = attempt(task, place, seed=seed_for(task, slip), error_rate=1.0)
        commands, stop, leaves = ENDS[slip]
        assert (actions(made), made.stop, good) == (commands, stop, leaves), task.id
        assert SLIPS[slip].resolves == (stop == "submitted" and good)


def test_the_share_of_errors_is_the_error_rate() -> None:
    slips = Counter(Nature.draw(task, seed, 0.3).slip for task in TASKS for seed in range(50))
    share = 1 - slips[""] / slips.total()
    assert 0.26 < share < 0.34
    assert set(slips) == {"", *SLIPS}


def test_a_reply_follows_from_conversation_task_and_seed_alone(place: Path) -> None:
    for seed in range(8):
        made, _ = attempt(TASKS[0], place, seed=seed, error_rate=1.0)
        again = script(TASKS[0], seed=seed, error_rate=1.0, format=FENCE)
        for step in made.steps:
            asked = again.reply(made.messages[: step.reply], sampling=Sampling())
            assert asked.message == made.messages[step.reply]


def prefix(made: Transcript, turns: int) -> Transcript:
    """The first turns of an attempt, observations included."""
    steps = made.steps[:turns]
    return replace(made, messages=made.messages[: steps[-1].observation + 1], steps=steps, stop="")


def finishes(task: Task, made: Transcript, turns: int, seeds: range, error_rate: float) -> list[bool]:
    """Go on from there with other seeds, each in a place as it was."""
    out = []
    for seed in seeds:
        here = quick(task)
        for step in made.steps[:turns]:
            here.exec(step.action)
        policy = script(task, seed=seed, error_rate=error_rate, format=FENCE)
        done = loop().run(task, here, policy, Sampling(), resume=prefix(made, turns))
        out.append(done.stop == "submitted" and here.solved())
    return out


def begun(task: Task, slip: str) -> Transcript:
    policy = script(task, seed=seed_for(task, slip), error_rate=1.0, format=FENCE)
    return loop().run(task, quick(task), policy, Sampling())


def test_the_quick_place_shows_what_a_real_one_shows(place: Path) -> None:
    for seed in range(4):
        real, good = attempt(TASKS[6], place, seed=seed, error_rate=1.0)
        here = quick(TASKS[6])
        made = loop().run(TASKS[6], here, script(TASKS[6], seed=seed, error_rate=1.0, format=FENCE), Sampling())
        assert [s.action for s in made.steps] == [s.action for s in real.steps]
        assert here.solved() == good


def test_others_finish_far_more_often_after_the_right_change_than_before_it() -> None:
    rates: dict[str, list[bool]] = defaultdict(list)
    for task in TASKS[:10]:
        made = begun(task, "harm")
        for name, turns in (("read", 1), ("right", 2), ("harmed", 3)):
            rates[name] += finishes(task, made, turns, range(1000, 1030), 0.6)
        rates["tested"] += finishes(task, begun(task, "never_submits"), 3, range(1000, 1030), 0.6)
    share = {name: sum(found) / len(found) for name, found in rates.items()}
    assert share["read"] + 0.2 < share["right"] < share["tested"]
    assert share["harmed"] < share["read"] - 0.1


def test_a_finisher_repairs_what_another_seed_broke() -> None:
    for slip in ("wrong_fix", "wrong_place", "harm"):
        made = begun(TASKS[1], slip)
        found = finishes(TASKS[1], made, len(made.steps) - 1, range(20), 0.0)
        assert 4 <= sum(found) <= 16, slip


def test_a_foreign_change_makes_it_read_again_and_write_what_is_missing(place: Path) -> None:
    task = TASKS[2]
    file = task.hidden["script"]["file"]
    first = ScriptedPolicy.replies("stranger", [FENCE.encode(f"echo '# note' >> {file}")])
    made = MiniLoop(schema.Harness(max_steps=1), PROMPTS).run(task, fresh(task, place), first, Sampling())
    stopped = prefix(made, 1)
    for seed in range(20):
        if Nature.draw(task, seed, 0.0).repairs:
            folder = fresh(task, place)
            folder.exec(made.steps[0].action)
            policy = script(task, seed=seed, error_rate=0.0, format=FENCE)
            done = loop().run(task, folder, policy, Sampling(), resume=stopped)
            assert actions(done)[1:] == ["cat", "python3", "cat", "cat", "python3", "echo"]
            assert solved(task, folder)
            break


def test_it_says_nothing_of_what_is_hidden(place: Path) -> None:
    """Only the right edit itself follows from the reference fix; hidden tests never show."""
    made, _ = attempt(TASKS[3], place)
    said = " ".join(m.content for m in made.messages)
    assert "_more" not in said


def test_compact_prompts_are_the_issue_and_the_output(place: Path) -> None:
    made, _ = attempt(TASKS[4], place)
    assert made.messages[0] == Message("user", TASKS[4].prompt)
    assert made.messages[2].content.startswith("     1\tdef ")
    assert made.messages[4].content == ""
    assert made.messages[6].content.splitlines() == ["2 passed"]


def test_a_failed_command_and_a_faulty_reply_are_told_briefly(place: Path) -> None:
    replies = [FENCE.encode("ls nothing; exit 3"), Message("assistant", "Hm."), FENCE.encode("echo hi")]
    policy = ScriptedPolicy.replies("clumsy", replies)
    made = MiniLoop(schema.Harness(max_steps=3), PROMPTS).run(TASKS[0], fresh(TASKS[0], place), policy, Sampling())
    assert made.messages[2].content.endswith("[exit 3]")
    assert "nothing" in made.messages[2].content
    assert made.messages[4].content == "One command, please: found 0 commands."
    assert made.messages[6].content == "hi"
    assert isinstance(made.steps[0], Step)


def test_what_was_cut_from_a_long_output_is_said(place: Path) -> None:
    policy = ScriptedPolicy.replies("loud", [FENCE.encode("seq 1000")])
    settings = schema.Harness(max_steps=1, observation_chars=40)
    made = MiniLoop(settings, PROMPTS).run(TASKS[0], fresh(TASKS[0], place), policy, Sampling())
    assert "characters cut]" in made.messages[2].content
    assert made.messages[2].content.startswith("1\n2\n")
    assert made.messages[2].content.endswith("1000")
