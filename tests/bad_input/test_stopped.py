"""Ctrl-C, SIGTERM and SIGKILL in each stage after distill: a clean stop, and the same command goes on."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from tests.small import SMALL_MODEL

from orchard_cli.policy.weights import fingerprint
from orchard_cli.runs.rundir import RunDir
from orchard_cli.trajectory.verify import verify

from .cli import orchard, start

SMALL = [
    "distill.attempts=8",
    "credit.samples=2",
    *SMALL_MODEL,
    "sft.tokens=40000",
    "sft.batch_tokens=256",
    "harness.max_steps=4",
    "harness.max_tokens=48",
    "rl.steps=3",
    "rl.prompts=2",
    "rl.group.size=4",
    "rl.group.max=8",
    "rl.group.stride=4",
    "rl.oversample=2",
    "eval.temperatures=[1.0]",
    "eval.attempts=12",
    "env.concurrency=4",
]
# What is there once the stage is in the middle of its work.
BEGUN = {
    "credit": "credit/inputs.json",
    "sft": "sft/.state/trainer.pt",
    "rl": "rl/.state/trainer.pt",
    "eval": "eval/trajectories/base-t1.jsonl.zst",
}
STAGES = ("distill", "credit", "sft", "rl", "eval")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole run, never interrupted."""
    root = tmp_path_factory.mktemp("made")
    ended = orchard("echo", "run", *SMALL, cwd=root)
    assert ended.code == 0, ended.err
    return root


def sandboxes(session: int) -> list[str]:
    """Commands of sandboxes that the processes of a session left behind."""
    found = subprocess.run(["ps", "-eo", "sid=,args="], capture_output=True, text=True, check=True).stdout
    return [line for line in found.splitlines() if line.split()[0] == str(session)]


def before(made: Path, stage: str, place: Path) -> Path:
    """The run as it was when `stage` was about to begin."""
    shutil.copytree(made / "runs", place / "runs")
    root = place / "runs" / "echo" / "demo"
    for later in STAGES[STAGES.index(stage) :]:
        shutil.rmtree(root / later)
    return root


def stop(stage: str, root: Path, cwd: Path, sent: signal.Signals) -> tuple[subprocess.Popen[str], str]:
    process = start("echo", stage, *SMALL, cwd=cwd)
    deadline = time.monotonic() + 100
    while process.poll() is None and not (root / BEGUN[stage]).exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(sent)
    _, err = process.communicate(timeout=100)
    while sandboxes(process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return process, err


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda s: s.name)
@pytest.mark.parametrize("stage", list(BEGUN))
def test_a_stopped_stage_goes_on_and_leaves_nothing_running(
    made: Path, tmp_path: Path, stage: str, sent: signal.Signals
) -> None:
    root = before(made, stage, tmp_path)
    process, err = stop(stage, root, tmp_path, sent)
    assert not RunDir(root).done(stage), "it was over before it was stopped"
    if sent == signal.SIGKILL:
        assert process.returncode == -signal.SIGKILL
    else:
        assert process.returncode == 130
        assert err.endswith("error: interrupted\n\nhint: the same command goes on where it stopped\n"), err
        assert "Traceback" not in err
    assert not sandboxes(process.pid)
    again = orchard("echo", stage, *SMALL, cwd=tmp_path)
    assert again.code == 0, again.err
    assert RunDir(root).done(stage)
    for file in [*root.rglob("trajectories.jsonl.zst"), *root.rglob("trajectories/*.zst")]:
        assert verify(file).ok, file
    assert not list(root.rglob("*.part"))
    if stage == "sft":
        assert fingerprint(root / "sft" / "checkpoint") == fingerprint(
            made / "runs" / "echo" / "demo" / "sft" / "checkpoint"
        )


def test_a_second_interrupt_ends_at_once_and_the_same_command_goes_on(tmp_path: Path) -> None:
    words = ("echo", "distill", "distill.attempts=200", "env.concurrency=4")
    process = start(*words, cwd=tmp_path)
    file = tmp_path / "runs" / "echo" / "demo" / "distill" / "trajectories.jsonl.zst"
    deadline = time.monotonic() + 60
    while not (file.exists() and file.stat().st_size > 5000) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err and "error: interrupted" in err
    while sandboxes(process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not sandboxes(process.pid)
    again = orchard("echo", "distill", *words[2:], cwd=tmp_path)
    assert again.code == 0, again.err
    assert verify(file).ok


def reads(pid: int, file: Path) -> bool:
    """True if the process has the file open: it is past its start, and in the middle of its work."""
    try:
        return any(os.path.realpath(fd) == str(file) for fd in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:  # it ended, or closed one while we looked
        return False


@pytest.mark.parametrize("command", ["ls", "stats", "verify"])
def test_interrupting_a_look_at_trajectories_is_clean(tmp_path: Path, command: str) -> None:
    assert orchard("echo", "distill", "distill.attempts=4", cwd=tmp_path).code == 0
    line = (tmp_path / "runs" / "echo" / "demo" / "distill" / "trajectories.jsonl.zst").read_bytes()
    (tmp_path / "many.jsonl.zst").write_bytes(line * 4000)  # frames stand for themselves
    process = start("traj", command, "many.jsonl.zst", cwd=tmp_path)
    while not reads(process.pid, tmp_path / "many.jsonl.zst"):
        assert process.poll() is None, "it was over before it was stopped"
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, ""), err
    assert err.startswith("error: interrupted\n") and "Traceback" not in err
