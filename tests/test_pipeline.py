"""The whole road on the smallest domain: every stage, its files, skipping what is unchanged, going on after a kill."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.small import SMALL_MODEL

from orchard_cli.commands.runs import find
from orchard_cli.errors import DataError, RunError
from orchard_cli.launch.local import launch, look
from orchard_cli.trajectory.reading import read
from orchard_cli.trajectory.verify import verify

SMALL = [
    "distill.attempts=4",
    "credit.samples=1",
    *SMALL_MODEL,
    "sft.tokens=30000",
    "harness.max_steps=4",
    "harness.max_tokens=48",
    "rl.steps=2",
    "rl.prompts=2",
    "rl.group.size=4",
    "rl.group.max=8",
    "rl.group.stride=4",
    "rl.oversample=2",
    "env.concurrency=8",
]


def test_run_takes_a_domain_from_a_script_to_a_measured_policy(echo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    launch("echo", "run", SMALL)
    root = echo / "runs" / "echo" / "demo"
    shown = capsys.readouterr()
    for stage in ("distill", "credit", "sft", "rl", "eval"):
        assert (root / stage / "done.json").exists(), stage
    assert "sft" in shown.out and "held-out tasks" in shown.out
    for file in [*root.rglob("trajectories*.jsonl.zst"), *root.rglob("step-*.jsonl.zst"), *root.rglob("*-t*.zst")]:
        report = verify(file)
        assert report.ok, report.problems[:3]
    report = json.loads((root / "eval" / "report.json").read_text())
    assert [row["policy"] for row in report["rows"]] == ["base", "base", "sft", "sft", "rl", "rl"]
    for step in map(json.loads, (root / "rl" / "steps.jsonl").read_text().splitlines()):
        account = step["account"]
        ended = account["trained"] + sum(account["masked"].values()) + sum(account["dropped"].values())
        assert account["sampled"] == ended
        assert step["sampled"] == step["used"] + step["discarded"] + step["excluded"]
    launch("echo", "run", SMALL)
    assert capsys.readouterr().err.count("unchanged, not run again") == 5
    with pytest.raises(RunError, match="rl.steps was 2, is 3"):
        launch("echo", "rl", [w if w != "rl.steps=2" else "rl.steps=3" for w in SMALL])


def test_a_stage_without_the_one_before_names_it(echo: Path) -> None:
    for stage, missing, before in [
        ("credit", "no trajectories in runs/echo/x/distill", "distill"),
        ("sft", "no trajectories in runs/echo/x/distill", "distill"),
        ("rl", "no checkpoint in runs/echo/x/sft", "sft"),
        ("eval", "no checkpoint in runs/echo/x/sft", "sft"),
    ]:
        with pytest.raises(RunError) as caught:
            launch("echo", stage, ["run=x"])
        assert str(caught.value) == missing
        assert caught.value.hint == f"`orchard echo {before} run=x` writes them"


def test_check_and_tasks_look_without_writing(echo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert look("echo", "check", [])
    capsys.readouterr()
    assert look("echo", "tasks", ["tasks.limit=2"], json=True)
    assert len(json.loads(capsys.readouterr().out)["tasks"]) == 4
    assert not (echo / "runs").exists()


def test_runs_are_found_by_name_or_path(echo: Path) -> None:
    launch("echo", "distill", ["run=one", "distill.attempts=1"])
    assert find("one", Path("runs")) == find("echo/one", Path("runs"))
    with pytest.raises(RunError, match="there is no run `two`"):
        find("two", Path("runs"))
    with pytest.raises(DataError):
        next(read("runs/echo/one/nothing.jsonl.zst"))


def orchard(*words: str, cwd: Path) -> subprocess.Popen[str]:
    env = {**os.environ, "ORCHARD_RECIPES": str(Path(__file__).parent / "fourth")}
    return subprocess.Popen(
        [sys.executable, "-m", "orchard_cli", *words],
        cwd=cwd,
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def descendants(root: int) -> set[int]:
    """Processes that `root` started, and those that they started."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = {int(pid): int(parent) for pid, parent in map(str.split, listed.splitlines())}
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {root}


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_stopped_run_goes_on_where_it_was_and_leaves_nothing_running(tmp_path: Path, sent: signal.Signals) -> None:
    words = ("echo", "distill", "distill.attempts=100", "env.concurrency=4")
    process = orchard(*words, cwd=tmp_path)
    file = tmp_path / "runs" / "echo" / "demo" / "distill" / "trajectories.jsonl.zst"
    deadline = time.monotonic() + 60
    while process.poll() is None and not (file.exists() and file.stat().st_size > 20_000):
        time.sleep(0.05)
    begun = descendants(process.pid)
    assert begun
    os.kill(process.pid, sent)
    _, err = process.communicate(timeout=60)
    if sent != signal.SIGKILL:
        assert process.returncode == 130
        assert "error: interrupted" in err and "hint: the same command goes on where it stopped" in err
        assert "Traceback" not in err
    while (left := {pid for pid in begun if Path(f"/proc/{pid}").exists()}) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left
    kept = len(list(read(file, torn=lambda _: None)))
    assert 0 < kept < 300
    again = orchard(*words, cwd=tmp_path)
    _, err = again.communicate(timeout=240)
    assert again.returncode == 0, err
    done = list(read(file))
    assert len(done) == 300 and len({t.id for t in done}) == 300
