"""Since when files may have changed, by a clock that is set this way and that."""

import socket
from typing import Any, cast

import pytest

from orchard_cli.env.agent import agent as module
from orchard_cli.env.agent.agent import Agent
from orchard_cli.env.agent.ground import Ground
from orchard_cli.env.agent.request import Request


class Clock:
    wall, counted = 5_000.0, 100.0

    def time(self) -> float:
        return self.wall

    def monotonic(self) -> float:
        return self.counted


class Client:
    """Takes the place of a connection."""

    told: dict[str, Any]

    def reply(self, status: int, record: dict[str, Any]) -> None:
        self.told = record


def test_no_file_that_was_changed_bears_an_earlier_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, client = Clock(), Client()
    monkeypatch.setattr(module, "time", clock)
    with socket.socket(socket.AF_UNIX) as listener:
        agent = Agent(listener, Ground(), sandbox="s", token="t", workdir="/", base={})

        def since() -> float:
            agent.handle(cast(Any, client), Request(b"GET /v1/health HTTP/1.1\r\n\r\n"))
            return float(client.told["since"])

        assert since() == 5_000
        clock.wall, clock.counted = 5_060, 160  # a minute later
        assert since() == 5_000
        clock.wall = 9_999  # set forward
        assert since() == 5_000
        clock.wall = 3_000  # set back: a file may bear a time from 2,940 on, had it been so from the beginning
        assert since() == 2_940
        clock.wall = 5_060  # put right; what was changed meanwhile keeps its time
        assert since() == 2_940
