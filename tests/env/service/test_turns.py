"""Logs that are full begin a new file; where that fails once, nothing is lost for good."""

import os
from pathlib import Path

import pytest

from orchard_cli.env.network.log import Decision, DecisionLog
from orchard_cli.env.service import audit
from orchard_cli.env.service.audit import Audit
from orchard_cli.env.service.metrics import Metrics


def test_an_audit_log_that_cannot_turn_writes_into_no_other_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Audit(tmp_path / "audit.jsonl", Metrics())
    log.write(line=1)
    monkeypatch.setattr(audit, "MAX_BYTES", 1)
    with monkeypatch.context() as patch:
        patch.setattr(log, "_open", _full)
        log.write(line=2)
        other = os.open(tmp_path / "another", os.O_RDWR | os.O_CREAT)  # takes the lowest number that is free
        log.write(line=3)
    assert not log.ok and os.fstat(other).st_size == 0
    log.write(line=4)
    assert log.ok and b'"line":1' in (tmp_path / "audit.1.jsonl").read_bytes()
    assert [line["line"] for line in log.tail(9, None)] == [4]
    log.close()
    os.close(other)


def test_decisions_are_written_again_once_that_can_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = DecisionLog(tmp_path / "log", max_bytes=300)
    said = Decision(1.0, "a", "http", "allowed")
    log.add(said)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", _full)
        with pytest.raises(OSError, match="descriptors"):
            log.add(said)
    log.add(said)
    assert (tmp_path / "log").read_bytes()
    log.close()


def _full(*_: object) -> int:
    raise OSError(24, "no more descriptors")
