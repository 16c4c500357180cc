"""Where an attempt takes place: a site that is served inside the sandbox, and one visit to it."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

VIEWPORT = (1280, 720)
RESET = ("url", "viewport", "clock_ms", "any_certificate", "begin", "probe", "before", "after")  # for the driver


@dataclass(frozen=True)
class Site:
    """A server that runs beside the browser for as long as the browser does.

    `command` is an argument vector inside the sandbox; `{port}` and `{python}` in it are replaced. `folders` are shown
    read-only. A site without a command is one that needs no server (the open web).
    """

    name: str
    command: tuple[str, ...] = ()
    port: int = 0
    folders: tuple[tuple[str, Path], ...] = ()  # (place inside, folder of this machine)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@dataclass(frozen=True)
class Request:
    """An HTTP request that the driver makes to the site, out of the browser's sight."""

    url: str
    method: str = "GET"
    headers: tuple[tuple[str, str], ...] = ()
    body: str = ""


@dataclass(frozen=True)
class Visit:
    """One attempt's start, in a fresh profile.

    begin, probe: JavaScript in the page's world: starts the episode and gives what to tell the policy; reads its state,
    `{"done": …, …}`; the attempt ends when it is done. before, after: requests to the site that make it ready and that
    read the end state. every: plain text and shapes get ids too. whole: also what lies outside the viewport is shown.
    skip: a CSS selector of what is not shown.
    """

    url: str
    viewport: tuple[int, int] = VIEWPORT
    clock_ms: int = 0  # what the page's clock shows at the start; 0: the real one
    any_certificate: bool = False  # also those that no authority vouches for
    begin: str = ""
    probe: str = ""
    before: Request | None = None
    after: Request | None = None
    every: bool = False
    whole: bool = False
    skip: str = ""
    lines: int = 300  # of one observation, at most
    where: bool = True  # tell the address and the scroll position

    def reset(self) -> dict[str, Any]:
        """Arguments of the driver's `reset`."""
        plain = asdict(self)
        return {key: plain[key] for key in RESET}
