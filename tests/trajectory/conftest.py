"""A sound trajectory to change, and files made of such."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard

from orchard_cli.outcome import Outcome
from orchard_cli.trajectory import (
    Executed,
    Ledger,
    Message,
    Origin,
    Run,
    Step,
    ToolCall,
    Trajectory,
    Usage,
)

Make = Callable[..., Trajectory]


@pytest.fixture
def make() -> Make:
    """`make(number, **changes)`: two steps, a ledger of 20 tokens of which 8 were sampled, solved."""

    def make(number: int = 0, **changes: Any) -> Trajectory:
        call = ToolCall("call_0", "bash", {"command": "ls"})
        fields: dict[str, Any] = dict(
            id=f"t{number}",
            task_id=f"task{number}",
            domain="swe",
            policy="tiny",
            harness="mini",
            messages=(
                Message("system", "Fix the bug."),
                Message("user", "f(2) is 3, not 4"),
                Message("assistant", "look", tool_calls=(call,)),
                Message("tool", "a.py", tool_call_id="call_0"),
                Message("assistant", "```bash\nsubmit\n```"),
            ),
            steps=(
                Step(2, "ls", 3, Executed(0, wall_s=0.01, output_bytes=5), (6, 10), "tool_calls"),
                Step(4, "submit", -1, Executed(0), (14, 18)),
            ),
            outcome=Outcome.SOLVED,
            stop="submitted",
            stage="distill",
            family="off_by_one",
            ledgers=(
                Ledger(
                    ids=tuple(range(20)),
                    runs=(
                        Run(6, Origin.TEMPLATE, mask="context"),
                        Run(4, Origin.POLICY, 0),
                        Run(4, Origin.ENVIRONMENT, mask="observation"),
                        Run(3, Origin.POLICY, 0),
                        Run(1, Origin.POLICY, 0, "after_stop"),
                        Run(2, Origin.TEMPLATE, mask="context"),
                    ),
                    logprobs=tuple(-0.25 * n for n in range(8)),
                ),
            ),
            reward=1.0,
            usage=Usage(2, 30, 8, 0.001),
            started_at="2026-01-02T03:04:05Z",
            wall_s=1.5,
        )
        return Trajectory(**{**fields, **changes})

    return make


@pytest.fixture
def frame() -> Callable[[bytes], bytes]:
    """One line as the frame that a store writes."""
    compressor = zstandard.ZstdCompressor(level=3, write_checksum=True)
    return lambda line: compressor.compress(line + b"\n")


@pytest.fixture
def write(tmp_path: Path, frame: Callable[[bytes], bytes]) -> Callable[..., Path]:
    """`write(*items)`: a .jsonl.zst of trajectories, dicts and raw lines, one frame each."""

    def write(*items: Trajectory | dict[str, Any] | bytes) -> Path:
        path = tmp_path / "trajectories.jsonl.zst"
        lines = [item if isinstance(item, bytes) else msgspec.json.encode(item) for item in items]
        path.write_bytes(b"".join(map(frame, lines)))
        return path

    return write
