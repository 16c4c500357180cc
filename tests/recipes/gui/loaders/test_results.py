"""Results lie where the benchmarks' evaluators look for them, in their own words."""

import json
import re
from pathlib import Path

import pytest
from orchard_cli.recipes.gui.loaders import results

from orchard_cli.errors import DataError, RunError
from orchard_cli.outcome import Outcome
from orchard_cli.task import Task
from orchard_cli.trajectory import Blobs, Executed, Message, Step, Trajectory

from ..judges.conftest import picture

TASK = Task(
    "Amazon--3", "gui", "Find the mug.", "eval", data={"start_url": "https://amazon.com/", "reference_length": 4}
)


@pytest.fixture
def blobs(tmp_path: Path) -> Blobs:
    return Blobs(tmp_path / "blobs")


@pytest.fixture
def attempt(blobs: Blobs) -> Trajectory:
    first, second = (blobs.put(picture(n)) for n in range(2))
    return Trajectory(
        id="t",
        task_id=TASK.id,
        domain="gui",
        policy="p",
        harness="react",
        messages=(
            Message("system", "You drive a browser."),
            Message("user", "Find the mug.\n\nurl: https://amazon.com/\n[1] link", images=(first,)),
            Message("assistant", "A link.\nclick(id=1)", "I think"),
            Message("user", "url: https://amazon.com/mug", images=(second,)),
            Message("assistant", 'It costs that.\ndone(response="[$12.50]")'),
        ),
        steps=(
            Step(2, "click(id=1)", 3, Executed(None, "ok", codes=("ok",))),
            Step(4, 'done(response="[$12.50]")', -1, Executed(None, "ok", codes=("ok",))),
        ),
        outcome=Outcome.SOLVED,
        stop="submitted",
    )


def test_webvoyagers_evaluator_finds_task_answer_and_screenshots(
    tmp_path: Path, attempt: Trajectory, blobs: Blobs
) -> None:
    folder = results.webvoyager(tmp_path / "results", TASK, attempt, blobs.get)
    assert folder == tmp_path / "results" / "taskAmazon--3"
    assert sorted(p.name for p in folder.iterdir()) == [
        "agent.log", "interact_messages.json", "screenshot1.png", "screenshot2.png"
    ]  # fmt: skip
    assert (folder / "screenshot2.png").read_bytes() == picture(1)
    spoken = json.loads((folder / "interact_messages.json").read_text())
    assert [m["role"] for m in spoken] == ["system", "user", "assistant", "user", "assistant"]
    asked = re.search(r"Now given a task:(.+?)Please interact with", spoken[1]["content"][0]["text"])
    assert asked is not None and asked[1].strip() == "Find the mug."
    answer = re.search(r"ANSWER[; ]+\[?(.[^\]]*)\]?", spoken[-1]["content"])
    assert answer is not None and answer[1] == "($12.50)" and "Action: ANSWER" in spoken[-1]["content"]
    assert "base64,iVBOR" not in (folder / "interact_messages.json").read_text()


def test_mind2web_version_2(tmp_path: Path, attempt: Trajectory, blobs: Blobs) -> None:
    folder = results.mind2web(tmp_path, TASK, attempt, blobs.get)
    result = json.loads((folder / "result.json").read_text())
    assert result["schema_version"] == "online-mind2web-v2" and result["agent_final_answer"] == "[$12.50]"
    assert result["reference_length"] == 4 and result["task_id"] == "Amazon--3" and result["task"] == "Find the mug."
    assert result["action_history"] == [
        {
            "step": 0,
            "screenshot": "0000.png",
            "url": "https://amazon.com/",
            "action": "click(id=1)",
            "action_status": "ok",
            "thought": "I think\nA link.",
        },
        {
            "step": 1,
            "screenshot": "0001.png",
            "url": "https://amazon.com/mug",
            "action": 'done(response="[$12.50]")',
            "action_status": "ok",
            "thought": "It costs that.",
        },
    ]
    assert (folder / "trajectory" / "0001.png").read_bytes() == picture(1)


def test_mind2web_version_1(tmp_path: Path, attempt: Trajectory, blobs: Blobs) -> None:
    folder = results.mind2web(tmp_path, TASK, attempt, blobs.get, version=1)
    result = json.loads((folder / "result.json").read_text())
    assert result["action_history"][0] == "<id=1> -> CLICK" and result["final_result_response"] == "[$12.50]"
    assert result["thoughts"] == ["I think\nA link.", "It costs that."]
    assert sorted(p.name for p in (folder / "trajectory").iterdir()) == [
        "0_full_screenshot.png",
        "1_full_screenshot.png",
    ]


def test_other_pictures_become_png_and_what_is_none_is_an_error() -> None:
    import io

    from PIL import Image

    out = io.BytesIO()
    Image.new("RGB", (3, 2)).save(out, "JPEG")
    assert Image.open(io.BytesIO(results.png(out.getvalue()))).format == "PNG"
    with pytest.raises(DataError, match="no picture"):
        results.png(b"text")


def test_nothing_is_written_outside_the_folder(tmp_path: Path, attempt: Trajectory, blobs: Blobs) -> None:
    evil = Task("../x", "gui", "Find the mug.")
    for write in (results.webvoyager, results.mind2web):
        with pytest.raises(DataError, match="cannot name a folder"):
            write(tmp_path / "deep", evil, attempt, blobs.get)
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError):
        results.webvoyager(tmp_path / "file", TASK, attempt, blobs.get)
