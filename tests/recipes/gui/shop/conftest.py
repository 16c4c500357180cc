"""A real shop on a loopback port, and an attempt at one of its tasks."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from orchard_cli.recipes.gui.shop.grade import grade, read_state
from orchard_cli.recipes.gui.shop.storefront.serve import Server, server

from orchard_cli.policy.policy import Policy, Sampling
from orchard_cli.task import Task
from orchard_cli.trajectory import Message

from .reader import WordBrowser

TOKEN = "the grader's token"


@dataclass
class Open:
    url: str
    shop: Server
    file: Path

    def state(self) -> dict[str, Any]:
        return read_state(self.file.read_bytes())


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Callable[..., Open]]:
    """`shop(seed, start)`: a server that listens."""
    running: list[tuple[Server, threading.Thread]] = []

    def make(seed: int = 3, start: dict[str, Any] | None = None) -> Open:
        file = tmp_path / f"state{len(running)}.json"
        serving = server(0, seed, file, token=TOKEN, start=start)
        thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        running.append((serving, thread))
        return Open(f"http://127.0.0.1:{serving.server_address[1]}/", serving, file)

    yield make
    for serving, thread in running:
        serving.shutdown()
        serving.server_close()
        thread.join()


@dataclass
class Ended:
    reward: float
    details: dict[str, Any]
    turns: int
    messages: list[Message]


Attempt = Callable[[Task, Policy], Ended]


@pytest.fixture
def attempt(shop: Callable[..., Open]) -> Attempt:
    """Let a policy act in the words browser until it says that it is done, 15 turns at most; then grade."""

    def run(task: Task, policy: Policy) -> Ended:
        opened = shop(task.data["shop"]["seed"], task.data["shop"]["start"])
        browser = WordBrowser(opened.url)
        messages = [Message("user", f"{task.prompt}\n\n{browser.observe()}")]
        turns = 0
        while not browser.done and turns < 15:
            said = policy.reply(messages, sampling=Sampling()).message
            messages.append(said)
            for call in said.tool_calls:
                browser.call(call)
            messages.append(Message("user", browser.observe()))
            turns += 1
        browser.close()
        return Ended(*grade(task, opened.state(), browser.answer), turns, messages)

    return run
