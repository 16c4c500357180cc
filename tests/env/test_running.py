"""A command as its client sees it, at agents that are not there."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

from orchard_cli.env.channel import Answer, Channel
from orchard_cli.env.running import WAIT_S, Running, known


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
        return Answer(200, {}, json.dumps({"taken": len(self.taken)}).encode())

    @contextmanager
    def stream(self, *_: object, **__: object) -> Iterator[tuple[Mapping[str, str], Iterator[bytes]]]:
        yield {}, iter(())


def running(agent: Agent, taken: int | None = 0) -> Running:
    return Running(cast(Channel, agent), "key", "id", 1.0, taken)


def test_there_is_nothing_after_the_end() -> None:
    assert list(running(Agent()).events(after=9)) == []


def test_what_two_write_at_once_is_taken_whole() -> None:
    def meanwhile() -> None:
        other.start()
        other.join(0.3)  # it waits for us, or has written

    agent = Agent(meanwhile)
    command = running(agent)
    other = threading.Thread(target=command.write, args=(b"two",))
    command.write(b"one")
    other.join()
    assert agent.taken == b"onetwo"


def test_input_of_a_command_that_was_found_again_is_sent_with_its_place() -> None:
    places: list[object] = []

    class Noting(Agent):
        def ask(self, method: str, path: str, body: bytes = b"", *, query: Mapping[str, Any], **how: Any) -> Answer:
            if body:
                places.append(query.get("offset"))
            return super().ask(method, path, body, query=query, **how)

    agent = Noting()
    agent.taken = b"before "
    running(agent, taken=None).write(b"after")
    assert (places, agent.taken) == ([7], b"before after")


def test_a_command_that_was_found_again_may_take_its_input_late() -> None:
    waits: list[float] = []

    class Knowing(Agent):
        def ask(self, method: str, path: str, body: bytes = b"", **how: Any) -> Answer:
            if method == "GET":
                return Answer(200, {}, json.dumps({"execs": [{"key": "key", "id": "id"}]}).encode())
            waits.append(how["wait_s"])
            return super().ask(method, path, body, **how)

    (found,) = known(cast(Channel, Knowing()))
    found.write(b"late")
    assert min(waits) >= WAIT_S
