"""The training view of a file of trajectories: Parquet, one row for each ledger."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DataError, RunError
from .reading import read
from .scan import Problem
from .types import SCHEMA, Ledger, Origin, Trajectory

if TYPE_CHECKING:
    import pyarrow

_ROWS = 256  # of one row group, unless its tokens are too many
_TOKENS = 1 << 20


@dataclass(frozen=True)
class Compacted:
    """What was written. rows: one for each ledger, or one with null tokens for a trajectory that has none."""

    file: str
    trajectories: int
    rows: int
    tokens: int
    bytes: int


def compact(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    torn: Callable[[Problem], None] | None = None,
) -> Compacted:
    """Write `out` (Parquet, zstd) from the trajectories at `path`, with the memory of one row group.

    Raises `DataError` as `read` does, `RunError` if `out` cannot be written; `out` is then as it was before.
    """
    import pyarrow.parquet

    path, out = Path(path), Path(out)
    if out.exists() and path.exists() and out.samefile(path):
        raise RunError(f"{out} is the file that is read", hint="name another file for the view")
    count = rows = tokens = 0
    with _replacing(out) as part, pyarrow.parquet.ParquetWriter(part, _schema(path), compression="zstd") as file:
        group: list[dict[str, Any]] = []
        size = 0
        for trajectory in read(path, torn=torn):
            count += 1
            new = list(_rows(trajectory))
            group += new
            size += sum(row["tokens"] for row in new)
            if len(group) >= _ROWS or size >= _TOKENS:
                _write(file, group)
                rows, tokens, group, size = rows + len(group), tokens + size, [], 0
        if group:
            _write(file, group)
    return Compacted(str(out), count, rows + len(group), tokens + size, out.stat().st_size)


@contextmanager
def _replacing(out: Path) -> Iterator[Path]:
    """A path to write to, which takes the place of `out` when all went well."""
    part = out.with_name(out.name + ".part")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        yield part
        part.replace(out)
    except OSError as error:
        hint = "free some space, or choose another place"
        raise RunError(f"{out} cannot be written: {error.strerror or error}", hint=hint) from error
    finally:
        with suppress(OSError):
            part.unlink()


def _write(file: "pyarrow.parquet.ParquetWriter", group: list[dict[str, Any]]) -> None:
    import pyarrow

    try:
        file.write_table(pyarrow.Table.from_pylist(group, schema=file.schema))
    except (pyarrow.ArrowInvalid, OverflowError) as error:
        names = f"trajectories {group[0]['id']!r} to {group[-1]['id']!r}"
        raise DataError(f"{names}: {error}", hint="`orchard traj verify` finds the number that does not fit") from error


def _schema(source: Path) -> "pyarrow.Schema":
    import pyarrow as pa

    text, integer = pa.string(), pa.int64()
    names = "id task_id domain policy harness stage split family outcome stop fault started_at"
    counts = "attempt seed steps calls prompt_tokens completion_tokens tokens sampled trainable"
    fields = [(name, text) for name in names.split()] + [(name, integer) for name in counts.split()]
    fields += [(name, pa.float64()) for name in ("reward", "cost_usd", "wall_s")]
    fields += [
        ("ledger", pa.int32()),
        ("ids", pa.list_(pa.int32())),
        ("logprobs", pa.list_(pa.float32())),
        ("run_length", pa.list_(pa.int32())),
        ("run_origin", pa.list_(text)),
        ("run_weight_version", pa.list_(pa.int64())),
        ("run_mask", pa.list_(text)),
        ("step_start", pa.list_(pa.int32())),
        ("step_end", pa.list_(pa.int32())),
    ]
    about = {"orchard.schema": str(SCHEMA), "orchard.source": str(source)}
    return pa.schema(fields, metadata=about)


def _rows(t: Trajectory) -> Iterator[dict[str, Any]]:
    common = {
        **{name: getattr(t, name) for name in ("id", "task_id", "domain", "policy", "harness", "stage")},
        **{name: getattr(t, name) for name in ("split", "family", "stop", "started_at", "attempt", "seed")},
        **{name: getattr(t.usage, name) for name in ("calls", "prompt_tokens", "completion_tokens", "cost_usd")},
        "outcome": t.outcome.value,
        "reward": t.reward,
        "fault": t.fault.code if t.fault else None,
        "steps": len(t.steps),
        "wall_s": t.wall_s,
    }
    if not t.ledgers:
        yield {**common, "tokens": 0, "sampled": 0, "trainable": 0}
    for at, ledger in enumerate(t.ledgers):
        spans = [step.span for step in t.steps if step.span and step.ledger == at]
        yield {
            **common,
            "ledger": at,
            **_tokens(ledger),
            "step_start": [start for start, _ in spans],
            "step_end": [end for _, end in spans],
        }


def _tokens(ledger: Ledger) -> dict[str, Any]:
    sampled = [run for run in ledger.runs if run.origin == Origin.POLICY]
    return {
        "tokens": len(ledger.ids),
        "sampled": sum(run.length for run in sampled),
        "trainable": sum(run.length for run in sampled if not run.mask),
        "ids": ledger.ids,
        "logprobs": ledger.logprobs,
        "run_length": [run.length for run in ledger.runs],
        "run_origin": [run.origin.value for run in ledger.runs],
        "run_weight_version": [run.weight_version for run in ledger.runs],
        "run_mask": [run.mask for run in ledger.runs],
    }
