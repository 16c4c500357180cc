"""A run whose files are not as they were left: named, never a traceback, never taken for something else."""

import os
from pathlib import Path

import pytest

from orchard_cli.errors import DataError, RunError
from orchard_cli.launch.local import launch
from orchard_cli.runs.rundir import RunDir
from orchard_cli.trajectory.frames import Frame, frames
from orchard_cli.trajectory.reading import read

from .cli import orchard, refused

WORDS = ["distill.attempts=3"]


@pytest.fixture
def distilled(echo: Path) -> Path:
    launch("echo", "distill", WORDS)
    return echo / "runs" / "echo" / "demo" / "distill"


def offsets(file: Path) -> list[int]:
    opened = os.open(file, os.O_RDONLY)
    try:
        return [f.offset for f in frames(opened) if isinstance(f, Frame)]
    finally:
        os.close(opened)


DAMAGED = [
    ("{", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
    ("[]", "it is no record of a stage"),
    ("{}", "it is no record of a stage"),
    ('{"inputs": 3}', "it lacks inputs, outputs or summary"),
    ("[" * 100_000, "maximum recursion depth exceeded while decoding a JSON array from a unicode string"),
]
MENDS = "`orchard echo distill run=demo --fresh` makes distill anew"


@pytest.mark.parametrize(("text", "why"), DAMAGED, ids=[d[0][:20] for d in DAMAGED])
def test_a_damaged_done_json_is_named(distilled: Path, text: str, why: str) -> None:
    (distilled / "done.json").write_text(text)
    with pytest.raises(RunError) as caught:
        launch("echo", "distill", WORDS)
    assert str(caught.value) == f"runs/echo/demo/distill/done.json is damaged: {why}"
    assert caught.value.hint == MENDS


@pytest.mark.parametrize("words", ["echo credit", "echo run --plan", "runs show demo"])
def test_whoever_reads_a_damaged_done_json_names_the_command_that_mends_it(distilled: Path, words: str) -> None:
    (distilled / "done.json").write_text("[]")
    ended = orchard(*words.split(), cwd=distilled.parents[3])
    refused(ended, 1, "runs/echo/demo/distill/done.json is damaged: it is no record of a stage", MENDS)


def test_fresh_mends_a_damaged_record(distilled: Path) -> None:
    (distilled / "done.json").write_text("{")
    launch("echo", "distill", WORDS, fresh=True)
    assert RunDir(distilled.parent).done("distill")


def test_damaged_inputs_of_an_unfinished_stage_are_named(distilled: Path) -> None:
    (distilled / "done.json").unlink()
    (distilled / "inputs.json").write_bytes(b"\xff")
    with pytest.raises(RunError, match=r"distill/inputs\.json is damaged: 'utf-8' codec") as caught:
        launch("echo", "distill", WORDS)
    assert caught.value.hint == MENDS


def test_a_stage_does_not_build_on_an_unfinished_one(distilled: Path) -> None:
    (distilled / "done.json").unlink()
    for stage in ("credit", "sft"):
        with pytest.raises(RunError, match=r"^runs/echo/demo/distill is unfinished$") as caught:
            launch("echo", stage, [])
        assert caught.value.hint == "`orchard echo distill run=demo` goes on with it"


def test_a_used_name_with_other_settings_leaves_the_files_alone(distilled: Path) -> None:
    before = {p: p.read_bytes() for p in distilled.iterdir()}
    ended = orchard("echo", "distill", "distill.attempts=4", cwd=distilled.parents[3])
    error = "runs/echo/demo/distill was made from other inputs: distill.attempts was 3, is 4"
    hint = "give the old settings, choose another name with run=NAME, or add --fresh to make distill anew"
    refused(ended, 1, error, hint)
    assert {p: p.read_bytes() for p in distilled.iterdir()} == before


def test_a_run_in_use_is_left_alone(distilled: Path) -> None:
    with RunDir(Path("runs/echo/demo")).lock():
        ended = orchard("echo", "distill", *WORDS, cwd=distilled.parents[3])
    error = "runs/echo/demo is in use by another process"
    refused(ended, 1, error, "wait for it, or choose another name: run=NAME")


def test_a_torn_tail_is_told_cut_and_made_anew(distilled: Path) -> None:
    (distilled / "done.json").unlink()
    file = distilled / "trajectories.jsonl.zst"
    last = offsets(file)[-1]
    os.truncate(file, last + 20)
    ended = orchard("echo", "distill", *WORDS, cwd=distilled.parents[3])
    assert ended.code == 0
    told = f"runs/echo/demo/distill/{file.name}: cut a torn tail of 20 bytes; that attempt is made anew"
    assert f"warning: {told}\n" in ended.err
    assert len({t.id for t in read(file)}) == 9


@pytest.mark.parametrize("stage", ["distill", "credit", "sft"])
def test_damage_in_the_middle_is_named_and_nothing_is_cut(distilled: Path, stage: str) -> None:
    if stage == "distill":
        (distilled / "done.json").unlink()
    file = distilled / "trajectories.jsonl.zst"
    at = offsets(file)[2]
    data = bytearray(file.read_bytes())
    data[at + 40] ^= 0xFF
    file.write_bytes(data)
    with pytest.raises(DataError, match=rf"trajectories\.jsonl\.zst:3 \(byte {at}\): .* \[bad_frame\]$") as caught:
        launch("echo", stage, WORDS)
    assert (
        caught.value.hint == f"`orchard traj verify runs/echo/demo/distill/{file.name}` lists every fault of the file"
    )
    assert file.read_bytes() == data


def test_a_file_of_a_newer_orchard_is_not_touched(distilled: Path) -> None:
    import zstandard

    (distilled / "done.json").unlink()
    file = distilled / "trajectories.jsonl.zst"
    with file.open("ab") as more:
        more.write(zstandard.ZstdCompressor(write_checksum=True).compress(b'{"schema": 999, "id": "n"}\n'))
    data, at = file.read_bytes(), offsets(file)[-1]
    ended = orchard("echo", "distill", *WORDS, cwd=distilled.parents[3])
    error = f"runs/echo/demo/distill/{file.name}:10 (byte {at}): trajectory 'n': schema: "
    error += "written by a newer orchard: record schema 999, this one reads 1 [newer_schema]"
    refused(ended, 1, error, "upgrade: pip install -U orchard-cli")
    assert file.read_bytes() == data


def test_a_stage_that_failed_before_it_did_anything_takes_other_settings(distilled: Path) -> None:
    assert orchard("echo", "eval", "eval.policy=nope", cwd=Path.cwd()).code == 1
    ended = orchard("echo", "eval", "eval.policy=teacher", "eval.attempts=2", "eval.k=1", cwd=Path.cwd())
    assert ended.code == 0, ended.err


def test_fresh_with_settings_that_are_refused_keeps_what_was_there(distilled: Path) -> None:
    before = (distilled / "trajectories.jsonl.zst").read_bytes()
    ended = orchard("echo", "distill", "harness.format=nope", "--fresh", cwd=Path.cwd())
    assert ended.code != 0 and "Traceback" not in ended.err
    assert (distilled / "trajectories.jsonl.zst").read_bytes() == before and (distilled / "done.json").exists()
