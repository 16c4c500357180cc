"""Every corruption that can be constructed is named with file, line, field and a code of its own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard

from orchard_cli.errors import DataError, Fault
from orchard_cli.outcome import Outcome
from orchard_cli.trajectory import Message, Origin, Problem, Run, Trajectory
from orchard_cli.trajectory.verify import verify

Make = Callable[..., Trajectory]
Write = Callable[..., Path]
Frame = Callable[[bytes], bytes]
Record = dict[str, Any]


@pytest.fixture
def sound(make: Make) -> Callable[[int], Record]:
    """A sound record as plain JSON values, free to be broken."""
    return lambda number=0: msgspec.json.decode(msgspec.json.encode(make(number)))


def only(path: Path) -> Problem:
    """The one problem of a file whose other records are good; its text names the place."""
    report = verify(path)
    assert [p.code for p in report.problems] == [report.problems[0].code], report.problems
    problem = report.problems[0]
    assert not report.ok
    assert str(problem).startswith(f"{path}:{problem.line} (byte {problem.frame_offset}):")
    assert problem.message and problem.message in str(problem)
    return problem


def test_a_sound_file_has_no_problem(make: Make, write: Write) -> None:
    path = write(make(0), make(1), make(2, outcome=Outcome.INFRA_ERROR, reward=None, fault=Fault("sandbox", "x", "y")))
    report = verify(path)
    assert report.ok and (report.records, report.good, report.problems) == (3, 3, ())
    assert report.bytes == path.stat().st_size


def test_verify_goes_on_after_damage_and_counts_what_is_good(make: Make, write: Write, sound: Callable) -> None:
    path = write(make(0), b"{", {**sound(1), "reward": 7}, make(2))
    report = verify(path)
    assert [(p.line, p.code) for p in report.problems] == [(2, "invalid_json"), (3, "reward_range")]
    assert (report.records, report.good) == (3, 2)
    assert verify(path, limit=1).more == 1


def test_a_torn_tail_is_named(make: Make, write: Write) -> None:
    path = write(make(0), make(1))
    offset = len(write(make(0)).read_bytes())
    path = write(make(0), make(1))
    path.write_bytes(path.read_bytes()[:-10])
    problem = only(path)
    assert (problem.line, problem.frame_offset, problem.code) == (2, offset, "torn_tail")


def test_garbage_between_frames_is_named(make: Make, frame: Frame, tmp_path: Path) -> None:
    parts = [frame(msgspec.json.encode(make(n))) for n in range(2)]
    path = tmp_path / "t.jsonl.zst"
    path.write_bytes(b"garbage".join(parts))
    problem = only(path)
    assert (problem.line, problem.frame_offset, problem.code) == (2, len(parts[0]), "garbage")
    assert verify(path).good == 2


@pytest.mark.parametrize("at", [-1, 40])
def test_a_broken_frame_is_named_and_those_around_it_stay_good(
    make: Make, frame: Frame, tmp_path: Path, at: int
) -> None:
    parts = [bytearray(frame(msgspec.json.encode(make(n)))) for n in range(3)]
    parts[1][at] ^= 0x55  # -1: its checksum; 40: its data
    path = tmp_path / "t.jsonl.zst"
    path.write_bytes(b"".join(parts))
    problem = only(path)
    assert (problem.line, problem.frame_offset, problem.code) == (2, len(parts[0]), "bad_frame")
    assert verify(path).good == 2


def test_neighbouring_broken_frames_are_told_apart(make: Make, frame: Frame, tmp_path: Path) -> None:
    parts = [bytearray(frame(msgspec.json.encode(make(n)))) for n in range(4)]
    parts[1][-1] ^= 1
    del parts[2][30:]
    path = tmp_path / "t.jsonl.zst"
    path.write_bytes(b"".join(parts))
    assert [(p.line, p.code) for p in verify(path).problems] == [(2, "bad_frame"), (3, "bad_frame")]


def test_a_frame_that_would_fill_the_memory_is_named(make: Make, frame: Frame, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl.zst"
    good = frame(msgspec.json.encode(make(0)))
    for known in (True, False):
        bomb = zstandard.ZstdCompressor(write_content_size=known).compressobj(1 << 29 if known else -1)
        piece = bytes(1 << 24)
        path.write_bytes(good + b"".join(bomb.compress(piece) for _ in range(32)) + bomb.flush())
        problem = only(path)
        assert (problem.line, problem.frame_offset, problem.code) == (2, len(good), "frame_too_large")


LINES = {
    "invalid_json": (b'{"id": "x",', ""),
    "invalid_utf8": (b'{"id": "\xff\xfe"}', ""),
    "blank_line": (b"  ", ""),
}


@pytest.mark.parametrize("code", LINES)
def test_a_line_that_is_no_json_is_named(make: Make, write: Write, code: str) -> None:
    line, field = LINES[code]
    problem = only(write(make(0), line, make(1)))
    assert (problem.line, problem.code, problem.field) == (2, code, field)


def drop(record: Record, *path: str | int) -> None:
    for key in path[:-1]:
        record = record[key]
    del record[path[-1]]


def put(record: Record, value: Any, *path: str | int) -> None:
    for key in path[:-1]:
        record = record[key]
    record[path[-1]] = value


def fail(record: Record, outcome: Outcome) -> None:
    record.update(outcome=outcome, fault={"domain": "sandbox", "code": "x", "message": "y"})


RECORDS: dict[str, tuple[str, str, Callable[[Record], Any]]] = {
    # name: (code, field, how to break a sound record)
    "an unknown field": ("unknown_field", "mood", lambda r: put(r, 1, "mood")),
    "an unknown field inside": ("unknown_field", "steps[1].mood", lambda r: put(r, 1, "steps", 1, "mood")),
    "a missing field": ("missing_field", "task_id", lambda r: drop(r, "task_id")),
    "a missing field inside": ("missing_field", "steps[0].reply", lambda r: drop(r, "steps", 0, "reply")),
    "no schema": ("missing_field", "schema", lambda r: drop(r, "schema")),
    "a wrong type": ("wrong_type", "attempt", lambda r: put(r, "1", "attempt")),
    "a wrong type inside": ("wrong_type", "ledgers[0].ids[3]", lambda r: put(r, 1.5, "ledgers", 0, "ids", 3)),
    "a log-probability that is null": (
        "wrong_type",
        "ledgers[0].logprobs[1]",
        lambda r: put(r, None, "ledgers", 0, "logprobs", 1),
    ),
    "an outcome that does not exist": ("invalid_value", "outcome", lambda r: put(r, "won", "outcome")),
    "a newer schema": ("newer_schema", "schema", lambda r: put(r, 2, "schema")),
    "a newer schema with new fields": ("newer_schema", "schema", lambda r: r.update(schema=2, mood=1)),
    "a schema that never was": ("unknown_schema", "schema", lambda r: put(r, 0, "schema")),
    "an empty id": ("empty", "task_id", lambda r: put(r, "", "task_id")),
    "a negative count": ("negative", "usage.prompt_tokens", lambda r: put(r, -1, "usage", "prompt_tokens")),
    "runs that do not sum to the ids": (
        "runs_sum",
        "ledgers[0].runs",
        lambda r: put(r, 7, "ledgers", 0, "runs", 5, "length"),
    ),
    "a run of no tokens": (
        "run_length",
        "ledgers[0].runs[6].length",
        lambda r: r["ledgers"][0]["runs"].append({"length": 0, "origin": "policy", "weight_version": 0}),
    ),
    "a log-probability too few": (
        "logprobs_count",
        "ledgers[0].logprobs",
        lambda r: drop(r, "ledgers", 0, "logprobs", 0),
    ),
    "a positive log-probability": (
        "logprob_value",
        "ledgers[0].logprobs[2]",
        lambda r: put(r, 0.5, "ledgers", 0, "logprobs", 2),
    ),
    "a negative token id": ("token_id", "ledgers[0].ids[4]", lambda r: put(r, -1, "ledgers", 0, "ids", 4)),
    "a token id beyond 31 bits": ("token_id", "ledgers[0].ids[4]", lambda r: put(r, 2**31, "ledgers", 0, "ids", 4)),
    "sampled tokens without weights": (
        "weight_version",
        "ledgers[0].runs[1].weight_version",
        lambda r: drop(r, "ledgers", 0, "runs", 1, "weight_version"),
    ),
    "context without a mask": (
        "mask_missing",
        "ledgers[0].runs[2].mask",
        lambda r: drop(r, "ledgers", 0, "runs", 2, "mask"),
    ),
    "a reply out of range": ("reply_index", "steps[1].reply", lambda r: put(r, 5, "steps", 1, "reply")),
    "a negative reply": ("reply_index", "steps[0].reply", lambda r: put(r, -1, "steps", 0, "reply")),
    "a reply of somebody else": ("reply_role", "steps[1].reply", lambda r: put(r, 3, "steps", 1, "reply")),
    "one reply twice": ("reply_order", "steps[1].reply", lambda r: put(r, 2, "steps", 1, "reply")),
    "an observation out of range": (
        "observation_index",
        "steps[0].observation",
        lambda r: put(r, 9, "steps", 0, "observation"),
    ),
    "an observation before its reply": (
        "observation_index",
        "steps[0].observation",
        lambda r: put(r, 1, "steps", 0, "observation"),
    ),
    "an observation by the policy": (
        "observation_role",
        "steps[0].observation",
        lambda r: r["messages"].__setitem__(3, {"role": "assistant"}),
    ),
    "a span outside the ledger": ("span_bounds", "steps[1].span", lambda r: put(r, [14, 21], "steps", 1, "span")),
    "a span that ends before it begins": (
        "span_bounds",
        "steps[1].span",
        lambda r: put(r, [16, 15], "steps", 1, "span"),
    ),
    "a span without a ledger": (
        "span_bounds",
        "steps[0].span",
        lambda r: (r.pop("ledgers"), drop(r, "steps", 1, "span")),
    ),
    "a span over the environment's tokens": (
        "span_origin",
        "steps[0].span",
        lambda r: put(r, [6, 11], "steps", 0, "span"),
    ),
    "overlapping spans": ("span_order", "steps[1].span", lambda r: put(r, [9, 10], "steps", 1, "span")),
    "descending spans": (
        "span_order",
        "steps[1].span",
        lambda r: (put(r, [14, 18], "steps", 0, "span"), put(r, [6, 10], "steps", 1, "span")),
    ),
    "no reward on an outcome that counts": ("reward_missing", "reward", lambda r: drop(r, "reward")),
    "a reward on one that does not": ("reward_unexpected", "reward", lambda r: fail(r, Outcome.INFRA_ERROR)),
    "a reward above 1": ("reward_range", "reward", lambda r: put(r, 1.5, "reward")),
    "a reward below 0": ("reward_range", "reward", lambda r: put(r, -0.5, "reward")),
    "solved for nothing": ("solved_reward", "reward", lambda r: put(r, 0.0, "reward")),
    "an infrastructure error without a fault": (
        "fault_missing",
        "fault",
        lambda r: (put(r, "infra_error", "outcome"), drop(r, "reward")),
    ),
    "an answer to a call that nobody made": (
        "tool_call_id",
        "messages[3].tool_call_id",
        lambda r: put(r, "call_7", "messages", 3, "tool_call_id"),
    ),
    "fewer calls than steps": ("usage_calls", "usage.calls", lambda r: put(r, 1, "usage", "calls")),
    "no time": ("timestamp", "started_at", lambda r: put(r, "yesterday", "started_at")),
    "a time without a zone": ("timestamp", "started_at", lambda r: put(r, "2026-01-02T03:04:05", "started_at")),
}


@pytest.mark.parametrize("name", RECORDS)
def test_a_broken_record_is_named(make: Make, write: Write, sound: Callable[[int], Record], name: str) -> None:
    code, field, damage = RECORDS[name]
    record = sound(1)
    damage(record)
    path = write(make(0), record, make(2))
    problem = only(path)
    assert (problem.file, problem.line, problem.code, problem.field) == (str(path), 2, code, field)
    assert problem.frame_offset == len(write(make(0)).read_bytes())
    assert problem.trajectory_id == "t1"


def test_a_second_record_with_one_id_is_named(make: Make, write: Write) -> None:
    problem = only(write(make(0), make(1, id="t0")))
    assert (problem.line, problem.code, problem.field) == (2, "duplicate_id", "id")
    assert "line 1 has the same id" in problem.message


def test_a_second_measurement_of_one_attempt_is_named(make: Make, write: Write) -> None:
    problem = only(write(make(0), make(0, id="again")))
    assert (problem.line, problem.code, problem.trajectory_id) == (2, "duplicate_attempt", "again")
    assert "attempt 0 at 'task0' (distill train) is on line 1 already" in problem.message


def test_an_attempt_drawn_again_after_an_infrastructure_error_is_sound(make: Make, write: Write) -> None:
    fault = Fault("sandbox", "x", "y")
    assert verify(write(make(0, id="a", outcome=Outcome.INFRA_ERROR, reward=None, fault=fault), make(0))).ok


def test_a_reply_cut_by_its_length_is_sound(make: Make, write: Write) -> None:
    steps = make().steps
    cut = msgspec.structs.replace(steps[1], finish="length")
    assert verify(write(make(0, steps=(steps[0], cut), outcome=Outcome.TRUNCATED, reward=0.0))).ok


def test_a_span_over_neighbouring_policy_runs_is_sound(make: Make, write: Write) -> None:
    runs = make().ledgers[0].runs
    assert runs[3].origin is runs[4].origin is Origin.POLICY and isinstance(runs[4], Run)
    assert verify(write(make())).ok  # its second span covers both


def test_tokens_that_say_something_else_than_the_message_are_named(make: Make, write: Write) -> None:
    def decode(ids: tuple[int, ...]) -> str:
        return {6: "look <call>", 14: "```bash\nsubmit\n```\n"}[ids[0]]

    path = write(make())
    assert verify(path, decode=decode).ok
    messages = (*make().messages[:4], Message("assistant", "```bash\nrm -r /\n```"))
    path = write(make(messages=messages))
    assert verify(path).ok
    (problem,) = verify(path, decode=decode).problems
    assert (problem.line, problem.code, problem.field) == (1, "decode_mismatch", "steps[1].span")


def test_plain_lines_are_verified_too_and_may_be_blank(make: Make, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    line = msgspec.json.encode(make())
    path.write_bytes(line + b"\n\n" + b"nonsense\n" + line[:40])
    problems = [(p.line, p.frame_offset, p.code) for p in verify(path).problems]
    end = len(line)
    assert problems == [(3, end + 2, "invalid_json"), (4, end + 11, "torn_tail")]


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not there"):
        verify(tmp_path / "t.jsonl.zst")
