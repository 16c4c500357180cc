"""The Parquet view holds every token of the file, and is whole or not there."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest

from orchard_cli.errors import DataError, Fault, RunError
from orchard_cli.outcome import Outcome
from orchard_cli.trajectory import Ledger, Origin, Problem, Run, Trajectory, Usage
from orchard_cli.trajectory.compact import compact

Make = Callable[..., Trajectory]
Write = Callable[..., Path]


def ledger_of(row: dict) -> Ledger:
    """The ledger that a row was made from."""
    columns = ("run_length", "run_origin", "run_weight_version", "run_mask")
    cut = zip(*(row[name] for name in columns), strict=True)
    runs = tuple(Run(length, Origin(origin), version, mask) for length, origin, version, mask in cut)
    return Ledger(tuple(row["ids"]), runs, tuple(row["logprobs"]))


def test_every_field_and_token_comes_back(make: Make, write: Write, tmp_path: Path) -> None:
    other = Ledger((2**31 - 1, 5), (Run(2, Origin.POLICY, 2**40, "side"),), (-0.5, 0.0))
    failed = {"outcome": Outcome.INFRA_ERROR, "reward": None, "fault": Fault("sandbox", "infra.gone", "x")}
    written = [make(0), make(1, ledgers=(*make().ledgers, other)), make(2, ledgers=(), **failed)]
    out = tmp_path / "deep" / "view.parquet"
    done = compact(write(*written), out)
    table = pq.read_table(out)
    rows = table.to_pylist()
    assert [(row["id"], row["ledger"]) for row in rows] == [("t0", 0), ("t1", 0), ("t1", 1), ("t2", None)]
    assert [ledger_of(row) for row in rows[:3]] == [*written[0].ledgers, *written[1].ledgers]
    assert rows[3]["ids"] is None and rows[3]["fault"] == "infra.gone" and rows[3]["reward"] is None
    for row, t in zip(rows, (written[0], written[1], written[1], written[2]), strict=True):
        for name in ("task_id", "domain", "policy", "harness", "stage", "split", "family", "stop", "seed", "reward"):
            assert row[name] == getattr(t, name)
        assert row["outcome"] == t.outcome.value and row["attempt"] == t.attempt
        assert Usage(row["calls"], row["prompt_tokens"], row["completion_tokens"], row["cost_usd"]) == t.usage
    assert [(row["tokens"], row["sampled"], row["trainable"]) for row in rows[1:]] == [(20, 8, 7), (2, 2, 0), (0, 0, 0)]
    assert list(zip(rows[0]["step_start"], rows[0]["step_end"], strict=True)) == [(6, 10), (14, 18)]
    assert (done.trajectories, done.rows, done.tokens, done.bytes) == (3, 4, 42, out.stat().st_size)
    assert str(table.schema.field("ids").type.value_type) == "int32"
    assert str(table.schema.field("logprobs").type.value_type) == "float"
    assert table.schema.metadata[b"orchard.schema"] == b"1"
    assert pq.ParquetFile(out).metadata.row_group(0).column(0).compression == "ZSTD"


def test_rows_are_written_in_groups(make: Make, write: Write, tmp_path: Path) -> None:
    out = tmp_path / "view.parquet"
    done = compact(write(*(make(n) for n in range(600))), out)
    assert (done.rows, done.tokens) == (600, 12000)
    assert pq.ParquetFile(out).metadata.num_row_groups == 3
    assert pq.read_table(out, columns=["id"])["id"].to_pylist() == [f"t{n}" for n in range(600)]


def test_a_damaged_source_leaves_the_old_view(make: Make, write: Write, tmp_path: Path) -> None:
    out = tmp_path / "view.parquet"
    out.write_bytes(b"old")
    wide = make(1, ledgers=(Ledger((2**31,), (Run(1, Origin.POLICY, 0),), (0.0,)),))
    for bad, message in ((b"{", "invalid_json"), (wide, "trajectories 't0' to 't1'")):
        with pytest.raises(DataError, match=message):
            compact(write(make(0), bad), out)
        assert out.read_bytes() == b"old"
        assert [p.name for p in tmp_path.iterdir() if p.suffix == ".part"] == []


def test_a_torn_tail_is_told(make: Make, write: Write, tmp_path: Path) -> None:
    path = write(make(0), make(1))
    path.write_bytes(path.read_bytes()[:-3])
    told: list[Problem] = []
    assert compact(path, tmp_path / "v.parquet", torn=told.append).trajectories == 1
    assert [p.line for p in told] == [2]


def test_a_place_that_cannot_be_written_is_an_error_with_a_hint(make: Make, write: Write, tmp_path: Path) -> None:
    path = write(make(0))
    for out in (Path("/proc/view.parquet"), path / "view.parquet", tmp_path):
        with pytest.raises(RunError, match="cannot be written") as caught:
            compact(path, out)
        assert caught.value.hint
    with pytest.raises(RunError, match="is the file that is read"):
        compact(path, path)


def test_reading_and_writing_trajectories_loads_no_pyarrow() -> None:
    code = "import sys, orchard_cli.trajectory.compact; print('pyarrow' in sys.modules, 'torch' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["False", "False"]


def test_null_tokens_are_told_from_no_tokens(make: Make, write: Write, tmp_path: Path) -> None:
    empty = msgspec.structs.replace(make(0), ledgers=(Ledger((), ()),), steps=())
    compact(write(empty, make(1, ledgers=())), tmp_path / "v.parquet")
    assert pq.read_table(tmp_path / "v.parquet")["ids"].to_pylist() == [[], None]
