"""Whoever kills a sandbox from outside is not taken for its command, and what a command does is the command's."""

import pytest

from orchard_cli.env.bench.faults import KINDS, Blamed, _once
from orchard_cli.env.bench.more import tables
from orchard_cli.env.local.local import LocalEnv

QUICK = (
    *("exit 124, as a timeout looks", "timeout", "ends all it sees", "disk", "no such directory"),
    *("agent killed under a command", "agent killed before a command", "first process killed from outside"),
    "spawner killed under a command",
)


@pytest.mark.parametrize("kind", QUICK)
def test_a_fault_names_its_owner(kind: str) -> None:
    owner, make = KINDS[kind]
    row = Blamed(kind, owner)
    with LocalEnv() as env:
        _once(env, make, row)
    assert (row.n, row.wrong, row.unknown) == (1, 0, 0), row.said


def test_what_was_said_is_told_as_a_table() -> None:
    row = {"fault": "disk", "n": 3, "owner": "model", "said": {"model: disk_quota": 3}, "wrong": 0, "unknown": 0}
    ((_, columns, lines),) = tables({"faults": [row]})
    assert dict(zip(columns, lines[0], strict=True))["said"] == "model: disk_quota 3"
