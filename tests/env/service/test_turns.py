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
    assert log.ok and os.fstat(other).st_size == 0
    log.write(line=4)
    older = (tmp_path / "audit.1.jsonl").read_bytes()
    assert log.ok and all(b'"line":%d' % number in older for number in (1, 2, 3))
    assert [line["line"] for line in log.tail(9, None)] == [4]
    log.close()
    os.close(other)


def test_decisions_are_written_again_once_that_can_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = DecisionLog(tmp_path / "log", max_bytes=300)
    said = Decision(1.0, "a", "http", "allowed")
    log.add(said)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", _full)
        for _ in range(4):
            log.add(said)
    log.add(said)
    log.close()
    assert (tmp_path / "log").read_bytes().count(b"\n") == 1
    assert (tmp_path / "log.1").read_bytes().count(b"\n") == 5


def _full(*_: object) -> int:
    raise OSError(24, "no more descriptors")


def test_a_file_that_cannot_be_renamed_costs_no_line_and_no_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, decisions = Audit(tmp_path / "audit.jsonl", Metrics()), DecisionLog(tmp_path / "log", max_bytes=300)
    monkeypatch.setattr(audit, "MAX_BYTES", 1)
    monkeypatch.setattr(Path, "replace", _full)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for number in range(10):
        log.write(line=number)
        decisions.add(Decision(float(number), "a", "http", "allowed"))
    assert len(list(Path("/proc/self/fd").iterdir())) == before and log.ok
    assert (tmp_path / "audit.jsonl").read_bytes().count(b"\n") == 10
    assert (tmp_path / "log").read_bytes().count(b"\n") == 10
    log.close()
    decisions.close()
