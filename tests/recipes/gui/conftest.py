"""A real browser in a real sandbox, at a site that misbehaves; afterwards no process of it may be left."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from orchard_cli.recipes.gui.browser import Browser, View
from orchard_cli.recipes.gui.chromium import spec
from orchard_cli.recipes.gui.seats import Seats
from orchard_cli.recipes.gui.visit import Site, Visit

from orchard_cli.env.local.local import LocalEnv
from orchard_cli.env.sandbox import Sandbox
from orchard_cli.harness.tools import ToolResult
from orchard_cli.trajectory import ToolCall

from .judges.conftest import Endpoint

PORT = 18090
PLACE = "/opt/orchard/bad"
BAD = Site("bad", ("{python}", "-B", f"{PLACE}/bad_site.py", "{port}"), PORT, ((PLACE, Path(__file__).parent),))
HERE = f"http://127.0.0.1:{PORT}"


@pytest.fixture(scope="session")
def env() -> Iterator[LocalEnv]:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    if not any(map(shutil.which, ("chromium-headless-shell", "chromium"))):
        pytest.skip("there is no Chromium")
    with LocalEnv() as made:
        yield made


@pytest.fixture(scope="module")
def sandbox(env: LocalEnv) -> Iterator[Sandbox]:
    with env.open(spec(BAD)) as made:
        yield made


@pytest.fixture(scope="module")
def seats() -> Iterator[Seats]:
    made = Seats(reuse=100)
    yield made
    made.close()


class Hand:
    """Opens pages and makes calls, as a policy would."""

    def __init__(self, seats: Seats, sandbox: Sandbox):
        self.seats, self.sandbox = seats, sandbox
        self.pictures: list[bytes] = []
        self.finals: list[dict[str, Any]] = []
        self.browser: Browser | None = None

    def open(self, page: str, view: str = "axtree", **visit: Any) -> str:
        self.close()
        keep = View(view, lambda picture: self.pictures.append(picture) or str(len(self.pictures)))
        place = Visit(f"{HERE}/{page}", **visit)
        self.browser = Browser(self.seats, self.sandbox, BAD, place, keep, self.finals.append)
        return self.browser.open().text

    def call(self, name: str, **arguments: Any) -> ToolResult:
        assert self.browser
        return self.browser.call(ToolCall("c", name, arguments))

    def see(self) -> str:
        assert self.browser
        return self.browser.observe().text

    def id(self, name: str) -> int:
        """The id of the thing with this name."""
        line = next(line for line in self.see().splitlines() if f'"{name}"' in line)
        return int(line[1 : line.index("]")])

    def close(self) -> None:
        browser, self.browser = self.browser, None
        if browser:
            browser.close()


@pytest.fixture
def hand(seats: Seats, sandbox: Sandbox) -> Iterator[Hand]:
    made = Hand(seats, sandbox)
    yield made
    made.close()


Opened = Callable[..., str]


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint()
    yield made
    made.close()
