"""A command as its client sees it, at agents that are not there."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

from orchard_cli.env.channel import Answer, Channel
from orchard_cli.env.running import Running


class Agent:
    """Takes input as one does: what comes again is passed over. `during` happens while the first is on its way."""

    def __init__(self, during: Callable[[], None] = lambda: None):
        self.taken, self._during = b"", during

    def ask(self, method: str, path: str, body: bytes = b"", *, query: Mapping[str, Any], **how: Any) -> Answer:
        offset = query.get("offset", len(self.taken))
        assert how["again"] and offset <= len(self.taken)
        self.taken += body[len(self.taken) - offset :]
        during, self._during = self._during, lambda: None
        during()
        return Answer(200, {}, json.dumps({"taken": offset + len(body)}).encode())

    @contextmanager
    def stream(self, *_: object, **__: object) -> Iterator[tuple[Mapping[str, str], Iterator[bytes]]]:
        yield {}, iter(())


def running(agent: Agent, taken: int | None = 0) -> Running:
    return Running(cast(Channel, agent), "key", "id", 1.0, taken)


def test_there_is_nothing_after_the_end() -> None:
    assert list(running(Agent()).events(after=9)) == []
